"""What a table must be able to prove before it starts, and what the options of its devices may be."""

from __future__ import annotations

from collections.abc import Sequence

from dollyd.daemon.core.state import Setup
from dollyd.daemon.settings.faults import unknown_key
from dollyd.drivers.spec import DriverSpec, Place, Proof
from dollyd.wire.errors import ConfigError


def check_option(file: str, key: str, driver: DriverSpec, value: object, period_ms: int) -> None:
    """Refuse an option that the driver has not, or a value that it may not have. Raises `ConfigError`."""
    name = key.rpartition(".")[2]
    option = driver.options.get(name)
    if option is None:
        raise ConfigError(file, key, "unknown option", unknown_key(name, driver.options))
    if type(value) is not option.kind:
        remedy = f"give a value of type {option.kind.__name__}"
        raise ConfigError(file, key, f"wrong type {type(value).__name__}", remedy)
    if option.kind is not int or not isinstance(value, int):
        return
    most, period = (option.most, "") if option.most is not None else (period_ms, ", the status period")
    if not option.least <= value <= most:
        remedy = f"give {option.least} to {most}{period}"
        raise ConfigError(file, key, f"{value} is out of range", remedy)


def check_proofs(file: str, key: str, setup: Setup, places: Sequence[Place]) -> None:
    """A table whose devices cannot prove what its rules ask does not start. Raises `ConfigError`."""
    if not setup.witnesses:
        remedy = f"add a device with role {' or '.join(sorted(setup.game.roles))}"
        raise ConfigError(file, f"{key}.devices", f"nothing reads the outcome of {setup.game.name}", remedy)
    boxes = sum(device.role == "odds" for device in setup.devices)
    if setup.needs_odds and boxes == 0:
        remedy = 'add a device with role "odds"'
        raise ConfigError(file, f"{key}.devices", f"variant {setup.variant_name} without an odds box", remedy)
    if boxes > 1:
        remedy = 'keep one device with role "odds"'
        raise ConfigError(file, f"{key}.devices", "two odds boxes would draw two tables", remedy)
    if setup.confirm == "dealer":  # who confirms has watched
        return
    remedy = 'add a device that does, set confirm = "dealer", or choose another profile'
    rules, enough = setup.rules, " or ".join(sorted(setup.rules.turns_basis))
    asked = {Proof.BALL_TURNS: rules.ball_min_turns, Proof.WHEEL_TURNS: rules.wheel_min_turns}
    for proof, turns in asked.items():
        proven = any(proof in place.proves and place.turns & rules.turns_basis for place in places)
        if turns > 0 and not proven:
            problem = f"no device proves {proof} that are {enough}, the profile asks for them"
            raise ConfigError(file, f"{key}.devices", problem, remedy)
    directed = any(Proof.DIRECTION in place.proves for place in places)
    if rules.ball_direction_opposite_required and not directed:
        problem = f"no device proves {Proof.DIRECTION}, the profile asks for it"
        raise ConfigError(file, f"{key}.devices", problem, remedy)
