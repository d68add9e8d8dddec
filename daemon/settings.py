"""TOML to frozen, checked settings.

An unknown key, a wrong type or a table that cannot prove what its rules ask is a `ConfigError` that names
file, key and remedy; nothing is guessed, nothing is ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from dollyd.daemon.core import rulebook as texts
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.record import Stakes
from dollyd.daemon.core.rulebook import RuleTextError
from dollyd.daemon.core.state import Bound, Setup
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.gaming_day import gaming_day
from dollyd.daemon.topics import check_name
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import DeviceSetup, DriverSpec, Proof

SHIPPED_RULES = "fi-ray-2013"
"""Regulation whose rulebooks and profile are shipped for every game."""

T = TypeVar("T")
Positive = Annotated[int, Meta(gt=0)]
NotNegative = Annotated[int, Meta(ge=0)]


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every section; an unknown key refuses to start."""


class JournalSection(_Section, frozen=True):
    """Where the journal lies, and how much of raw captures it keeps."""

    path: str
    captures_max_mb: Positive = 500


class SigningSection(_Section, frozen=True):
    """The node's private key, a PEM file that only its owner may read."""

    key: str


class MqttSection(_Section, frozen=True):
    """The brokers, tried in order (`host:port`, `mqtts://host:port` for TLS)."""

    brokers: Annotated[tuple[str, ...], Meta(min_length=1)] = ("localhost:1883",)
    protocol: Literal["5", "3.1.1"] = "5"
    client_id: str = ""
    """Empty: made of site and node."""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    keepalive_s: Annotated[int, Meta(ge=1, le=10)] = 10
    """A dead link is found within twice this time."""


class GamingDaySection(_Section, frozen=True):
    """When a gaming day begins, in the site's local time."""

    timezone: str = "UTC"
    boundary: str = "06:00"


class DeviceSection(_Section, frozen=True):
    """One device at a table."""

    driver: str
    role: str
    port: str
    baud: Positive | None = None
    dtr: bool | None = None
    rts: bool | None = None
    status_period_ms: Positive | None = None
    silence_ms: Positive | None = None
    """Longer silence inside a draw is a gap; 4 periods unless set."""
    options: dict[str, Any] = {}
    secret_file: str = ""
    expect: dict[str, str] = {}
    """Identity that the device must show."""


class StakesSection(_Section, frozen=True):
    """Limits on the table's sign, integer minor units of `currency`."""

    minimum: NotNegative
    maximum: NotNegative
    currency: str


class TableSection(_Section, frozen=True):
    """One gaming table."""

    game: str
    variant: str
    rulebook: str
    profile: str
    stakes: StakesSection
    devices: dict[str, dict[str, Any]]
    zero_rule: str = ""
    quarters: bool = False
    confirm: Literal["auto", "dealer"] = "auto"
    odds_timeout_ms: Positive = 5_000
    draw_timeout_ms: Positive = 120_000


class _File(_Section, frozen=True):
    site: str
    node: str
    journal: JournalSection
    signing: SigningSection
    tables: dict[str, dict[str, Any]]
    mqtt: MqttSection = MqttSection()
    gaming_day: GamingDaySection = GamingDaySection()


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """A device with its driver and everything that its protocol is told."""

    key: str
    """Where it stands in the file, for messages."""
    section: DeviceSection
    driver: DriverSpec
    setup: DeviceSetup


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A table with its rules and devices."""

    setup: Setup
    devices: Mapping[str, DeviceSettings]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the daemon is told."""

    file: str
    site: str
    node: str
    journal: JournalSection
    signing: SigningSection
    mqtt: MqttSection
    tables: Mapping[str, TableSettings]


def load(path: Path) -> Settings:
    """Read and check a configuration. Raises `ConfigError`."""
    file = str(path)
    try:
        tree = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(
            file, "", error.strerror or str(error), "give the path of a readable file"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(file, "", f"not valid TOML: {error}", "correct the line that is named") from error
    head = _convert(file, "", tree, _File)
    for key, name in (("site", head.site), ("node", head.node)):
        _check_name(file, key, name)
    if not head.tables:
        raise ConfigError(file, "tables", "no table", "add a section [tables.NAME]")
    try:
        date_of = gaming_day(head.gaming_day.timezone, head.gaming_day.boundary)
    except (ValueError, KeyError) as error:
        remedy = 'give a timezone like "Europe/Helsinki" and a boundary like "06:00"'
        raise ConfigError(file, "gaming_day", str(error), remedy) from error
    tables = {name: _table(path, name, tree, date_of) for name, tree in head.tables.items()}
    _check_ports_differ(file, tables)
    return Settings(file, head.site, head.node, head.journal, head.signing, head.mqtt, tables)


def shipped_table(game: str, variant: str, driver: str) -> TableSettings:
    """A table with one device under the shipped rules, for replays. Raises `ConfigError`."""
    spec = DRIVERS.get(driver)
    if spec is None:
        raise ConfigError("dollyd", "driver", f"no driver {driver!r}", f"choose one of {', '.join(DRIVERS)}")
    device = {"driver": driver, "role": min(spec.roles), "port": "none"}
    tree: dict[str, Any] = {
        "game": game,
        "variant": variant,
        "rulebook": f"{SHIPPED_RULES}-{game}",
        "profile": SHIPPED_RULES,
        "stakes": {"minimum": 0, "maximum": 0, "currency": "none"},
        "devices": {driver: device},
    }
    if variant == "D":
        tree["zero_rule"] = "half"
    return _table(Path("dollyd"), "replay", tree, gaming_day("UTC", "00:00"))


def _convert(file: str, prefix: str, tree: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        place = place.rstrip("`").replace("[...]", "")
        problem = what.replace("Object contains", "").replace("Object missing", "missing").strip()
        if "unknown field" in what or "missing" in what:
            place += "." + what.split("`")[1]
            remedy = "remove it or correct its name" if "unknown" in what else "add it"
            problem = "unknown key" if "unknown" in what else "missing"
        else:
            remedy = "correct the value"
        raise ConfigError(file, (prefix + place).strip("."), problem, remedy) from error


def _check_name(file: str, key: str, name: str) -> None:
    if not check_name(name):
        remedy = "use 1 to 40 of a-z, 0-9 and -, for it stands in MQTT topics"
        raise ConfigError(file, key, f"{name!r} is not a name", remedy)


def _rule_file(config: Path, key: str, folder: str, name: str) -> bytes:
    """A rule text by the name of a shipped one, or by a path that ends in `.toml` (relative to the file)."""
    try:
        if name.endswith(".toml"):
            return (config.parent / name).read_bytes()
        return files("dollyd").joinpath("config", folder, f"{name}.toml").read_bytes()
    except OSError as error:
        shipped = sorted(
            entry.name.removesuffix(".toml") for entry in files("dollyd").joinpath("config", folder).iterdir()
        )
        remedy = f"give a path that ends in .toml or one of {', '.join(shipped)}"
        raise ConfigError(str(config), key, f"{name!r} cannot be read ({error.strerror})", remedy) from error


def _parse_rules(config: Path, key: str, folder: str, name: str, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(_rule_file(config, key, folder, name))
    except RuleTextError as error:
        raise ConfigError(str(config), key, f"{name!r}: {error}", "correct the rule file") from error


def _table(config: Path, name: str, tree: Any, date_of: Callable[[int], str]) -> TableSettings:
    file, key = str(config), f"tables.{name}"
    _check_name(file, key, name)
    section = _convert(file, key, tree, TableSection)
    game = GAMES.get(section.game)
    if game is None:
        raise ConfigError(
            file, f"{key}.game", f"no game {section.game!r}", f"choose one of {', '.join(GAMES)}"
        )
    rulebook, book_name = _parse_rules(
        config, f"{key}.rulebook", "rulebooks", section.rulebook, texts.parse_rulebook
    )
    profile, profile_name = _parse_rules(
        config, f"{key}.profile", "profiles", section.profile, texts.parse_profile
    )
    variant = rulebook.variants.get(section.variant)
    if rulebook.game != section.game or variant is None:
        problem = f"rulebook {rulebook.id} has no {section.game} variant {section.variant!r}"
        raise ConfigError(file, f"{key}.variant", problem, f"choose one of {', '.join(rulebook.variants)}")
    rules = profile.games.get(section.game)
    if rules is None:
        remedy = "choose a profile that has this game"
        raise ConfigError(
            file, f"{key}.profile", f"profile {profile.id} says nothing of {section.game}", remedy
        )
    zero_rule = section.zero_rule or (variant.zero_rules[0] if len(variant.zero_rules) == 1 else "")
    if zero_rule not in variant.zero_rules:
        remedy = f"set one of {', '.join(variant.zero_rules)}"
        raise ConfigError(file, f"{key}.zero_rule", f"variant {section.variant} needs a zero rule", remedy)
    if section.quarters and not rulebook.quarter_odds:
        remedy = "set quarters = false"
        raise ConfigError(file, f"{key}.quarters", f"rulebook {rulebook.id} has no quarter bets", remedy)
    stakes = Stakes(**msgspec.structs.asdict(section.stakes))
    if stakes.maximum < stakes.minimum:
        remedy = "give 0 <= minimum <= maximum, in minor units"
        raise ConfigError(file, f"{key}.stakes", "minimum and maximum do not fit", remedy)
    layout = _parse_rules(config, f"{key}.variant", "layouts", variant.layout, texts.parse_layout)
    devices = {
        device: _device(config, f"{key}.devices.{device}", device, tree, section.game, game.values(layout))
        for device, tree in section.devices.items()
    }
    setup = Setup(
        table=name,
        game=game,
        variant_name=section.variant,
        variant=variant,
        layout=layout,
        rulebook=book_name,
        profile=profile_name,
        rules=rules,
        zero_rule=zero_rule,
        quarters=section.quarters,
        stakes=stakes,
        devices=tuple(Bound(n, d.section.driver, d.section.role) for n, d in devices.items()),
        confirm=section.confirm,
        hold_ms=rules.hold_ms,
        odds_timeout_ms=section.odds_timeout_ms,
        draw_timeout_ms=section.draw_timeout_ms,
        unresolved_void_ms=rules.unresolved_void_after_s * 1000,
        gaming_date=date_of,
    )
    _check_proofs(file, key, setup, devices)
    return TableSettings(setup, devices)


def _device(
    config: Path, key: str, name: str, tree: Any, game: str, pockets: tuple[str, ...]
) -> DeviceSettings:
    file = str(config)
    _check_name(file, key, name)
    section = _convert(file, key, tree, DeviceSection)
    driver = DRIVERS.get(section.driver)
    if driver is None:
        remedy = f"choose one of {', '.join(DRIVERS)}"
        raise ConfigError(file, f"{key}.driver", f"no driver {section.driver!r}", remedy)
    if section.role not in driver.roles or game not in driver.games:
        remedy = (
            f"{driver.name} can be {', '.join(sorted(driver.roles))} of {', '.join(sorted(driver.games))}"
        )
        raise ConfigError(file, f"{key}.role", f"{driver.name} cannot be {section.role!r} of {game}", remedy)
    for option, value in section.options.items():
        if option not in driver.options:
            remedy = f"known are {', '.join(driver.options) or 'none'}"
            raise ConfigError(file, f"{key}.options.{option}", "unknown option", remedy)
        if type(value) is not driver.options[option]:
            remedy = f"give a value of type {driver.options[option].__name__}"
            raise ConfigError(file, f"{key}.options.{option}", f"wrong type {type(value).__name__}", remedy)
    expected = section.expect.get("pockets")
    if section.role == "wheel" and expected is not None and expected != str(len(pockets)):
        remedy = f"fit a wheel with {len(pockets)} pockets or choose another variant"
        problem = f"a wheel with {expected} pockets on a game with {len(pockets)}"
        raise ConfigError(file, f"{key}.expect.pockets", problem, remedy)
    period_ms = section.status_period_ms or driver.period_ms
    setup = DeviceSetup(
        name=name,
        role=section.role,
        pockets=pockets,
        period_ms=period_ms,
        silence_ms=section.silence_ms or 4 * period_ms,
        options=section.options,
        secret=_secret(config, key, section, driver),
        expect=section.expect,
    )
    return DeviceSettings(key, section, driver, setup)


def _secret(config: Path, key: str, section: DeviceSection, driver: DriverSpec) -> bytes:
    if not driver.needs_secret:
        return b""
    remedy = "name a file that holds the key shared with the device"
    if not section.secret_file:
        raise ConfigError(str(config), f"{key}.secret_file", "missing", remedy)
    try:
        secret = (config.parent / section.secret_file).read_bytes().strip()
    except OSError as error:
        problem = f"{section.secret_file}: {error.strerror}"
        raise ConfigError(str(config), f"{key}.secret_file", problem, remedy) from error
    if len(secret) < 16:
        raise ConfigError(str(config), f"{key}.secret_file", "shorter than 16 bytes", remedy)
    return secret


def _check_proofs(file: str, key: str, setup: Setup, devices: Mapping[str, DeviceSettings]) -> None:
    """A table whose devices cannot prove what its rules ask does not start (design section 5)."""
    if not setup.witnesses:
        remedy = f"add a device with role {' or '.join(sorted(setup.game.roles))}"
        raise ConfigError(file, f"{key}.devices", f"nothing reads the outcome of {setup.game.name}", remedy)
    proofs = frozenset(proof for device in devices.values() for proof in device.driver.proves)
    boxes = sum(device.role == "odds" for device in setup.devices)
    if setup.needs_odds and boxes == 0:
        remedy = 'add a device with role "odds"'
        raise ConfigError(file, f"{key}.devices", f"variant {setup.variant_name} without an odds box", remedy)
    if boxes > 1:
        remedy = 'keep one device with role "odds"'
        raise ConfigError(file, f"{key}.devices", "two odds boxes would draw two tables", remedy)
    asked = {
        Proof.TURNS: setup.rules.ball_min_turns > 0 or setup.rules.wheel_min_turns > 0,
        Proof.DIRECTION: setup.rules.ball_direction_opposite_required,
    }
    for proof, wanted in asked.items():
        if wanted and proof not in proofs:
            remedy = "add a device that does, or choose another profile"
            raise ConfigError(
                file, f"{key}.devices", f"no device proves {proof}, the profile asks for it", remedy
            )


def _check_ports_differ(file: str, tables: Mapping[str, TableSettings]) -> None:
    seen: dict[str, str] = {}
    for table in tables.values():
        for device in table.devices.values():
            other = seen.setdefault(device.section.port, device.key)
            if other != device.key:
                problem = f"port {device.section.port} is already that of {other}"
                raise ConfigError(file, f"{device.key}.port", problem, "give each device its own port")
