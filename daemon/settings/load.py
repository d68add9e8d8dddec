"""TOML to frozen, checked settings.

An unknown key, a wrong type or a table that cannot prove what its rules ask is a `ConfigError` that names
file, key and remedy; nothing is guessed, nothing is ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.state import Bound, Setup
from dollyd.daemon.host.secret_files import read_secret
from dollyd.daemon.settings.currencies import CURRENCIES
from dollyd.daemon.settings.faults import Faults, choice, nearest
from dollyd.daemon.settings.file_names import TO_READ, beside, check_own_file, check_texts, named_files
from dollyd.daemon.settings.gaming_day import GamingDay, gaming_day
from dollyd.daemon.settings.section_reader import read_section
from dollyd.daemon.settings.sections import (
    Configuration,
    DeskSection,
    DeviceSection,
    JournalSection,
    MetricsSection,
    MqttSection,
    SigningSection,
    StakesSection,
    TableSection,
)
from dollyd.daemon.settings.table_checks import check_option, check_proofs
from dollyd.daemon.settings.table_rules import TableRules, Wanted, rules_of
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import Badges, DeviceSetup, DriverSpec, Place, UsbDefaults
from dollyd.drivers.transports.usb_port import UsbSettings, parse_usb
from dollyd.wire.decoding import from_toml
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import cure
from dollyd.wire.record import Stakes
from dollyd.wire.topics import NO_TABLES, check_name

SHIPPED_RULES = "fi-ray-2013"
"""Regulation whose rulebooks and profile are shipped for every game."""

USB_PREFIX = "usb:"
"""Ports that begin so are USB devices; all others are names of serial ports."""


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """A device with its driver and everything that its protocol is told."""

    key: str
    """Where it stands in the file, for messages."""
    section: DeviceSection
    driver: DriverSpec
    setup: DeviceSetup
    usb: UsbSettings | None = None
    """The USB device that the port means, None for a serial port."""


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
    desk: DeskSection
    tables: Mapping[str, TableSettings]
    metrics: MetricsSection
    gaming_date: GamingDay
    """From a time to the gaming date of this place, and back."""
    files: Mapping[str, Path]
    """Everything that must be read, the configuration included, by the key that names it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A configuration as far as it can be read, and all that is wrong with it."""

    faults: Faults
    settings: Settings | None = None
    """With the tables that are right, for further looks; None where it is no configuration at all."""
    devices: tuple[DeviceSettings, ...] = ()
    """Of all tables, those that are wrong in something else too."""


def load(path: Path) -> Settings:
    """Read and check a configuration. Raises `ConfigError`, which holds all that is wrong."""
    draft = read(path)
    return draft.faults.given(draft.settings)


def read(path: Path) -> Draft:
    """The same, for those who go on looking where something is wrong. Never raises for a mistake."""
    faults = Faults(str(path))
    with faults.kept():
        tree = _tree(path)
        check_texts(faults.file, tree)
    if faults.found:
        return Draft(faults)
    head = read_section(tree, Configuration, "", faults)
    date_of = _check_head(head, faults)
    tables: dict[str, TableSettings] = {}
    devices: list[DeviceSettings] = []
    for name, section in head.tables.items():
        table, of_table = _table(path, name, section, date_of, faults)
        devices += of_table
        if table is not None:
            tables[name] = table
    _check_ports_differ(devices, faults)
    settings = Settings(
        file=faults.file,
        site=head.site,
        node=head.node,
        journal=beside(path, head.journal, "path"),
        signing=beside(path, head.signing, *TO_READ["signing"]),
        mqtt=beside(path, head.mqtt, *TO_READ["mqtt"]),
        desk=beside(path, head.desk, "password_file", "cert_file", "key_file"),
        tables=tables,
        metrics=beside(path, head.metrics, "file"),
        gaming_date=date_of,
        files=named_files(path, head),
    )
    return Draft(faults, settings, tuple(devices))


def shipped_table(game: str, variant: str, driver: str) -> TableSettings:
    """A table with one device under the shipped rules, for replays. Raises `ConfigError`."""
    spec = DRIVERS.get(driver)
    if spec is None:
        raise ConfigError("dollyd", "driver", f"no driver {driver!r}", choice(driver, DRIVERS))
    reading = GAMES[game].roles if game in GAMES else frozenset()
    role = min(reading & spec.roles.keys(), default=min(spec.roles))
    section = TableSection(
        game=game,
        variant=variant,
        rulebook=f"{SHIPPED_RULES}-{game}",
        profile=SHIPPED_RULES,
        stakes=StakesSection(0, 0, "XTS"),
        devices={driver: DeviceSection(driver=driver, role=role, port="none")},
        zero_rule="half" if variant == "D" else "",
    )
    faults = Faults("dollyd")
    table, _ = _table(Path("dollyd"), "replay", section, gaming_day("UTC", "00:00"), faults)
    return faults.given(table)


def _tree(path: Path) -> dict[str, Any]:
    """The file as TOML. Raises `ConfigError`."""
    try:
        return from_toml(path.read_bytes())
    except OSError as error:
        remedy = cure(error, "give the path of a readable file")
        raise ConfigError(str(path), "", error.strerror or str(error), remedy) from error
    except tomllib.TOMLDecodeError as error:
        remedy = "correct the line that is named"
        raise ConfigError(str(path), "", f"not valid TOML: {error}", remedy) from error


def _check_head(head: Configuration, faults: Faults) -> GamingDay:
    """What stands outside of tables; gives the calendar of gaming days."""
    for key, name in (("site", head.site), ("node", head.node)):
        _check_name(faults, key, name)
    if not head.tables:
        faults.add("tables", "no table", "add a section [tables.NAME]")
    if head.journal.floor_mb > head.journal.low_mb:
        problem = f"{head.journal.floor_mb} is more than journal.low_mb, {head.journal.low_mb}"
        faults.add("journal.floor_mb", problem, "give a floor below the low mark")
    with faults.kept():
        check_own_file(faults.file, "journal.path", head.journal.path)
    if head.metrics.file:
        with faults.kept():
            check_own_file(faults.file, "metrics.file", head.metrics.file)
    try:
        return gaming_day(head.gaming_day.timezone, head.gaming_day.boundary)
    except (ValueError, KeyError) as error:
        remedy = 'give a timezone like "Europe/Helsinki" and a boundary like "06:00"'
        faults.add("gaming_day", str(error), remedy)
        return gaming_day("UTC", "00:00")


def _check_name(faults: Faults, key: str, name: str) -> None:
    if not check_name(name):
        remedy = "use 1 to 40 of a-z, 0-9 and -, for it stands in MQTT topics"
        faults.add(key, f"{name!r} is not a name", remedy)


def _table(
    config: Path, name: str, section: TableSection, date_of: Callable[[int], str], faults: Faults
) -> tuple[TableSettings | None, list[DeviceSettings]]:
    """A table, None where something of it is wrong, and those of its devices that are right."""
    key = f"tables.{name}"
    _check_name(faults, key, name)
    if name in NO_TABLES:
        faults.add(key, f"no table may be called {name!r}", "choose another name")
    rules = rules_of(
        Wanted(
            config=config,
            key=key,
            game=section.game,
            variant=section.variant,
            rulebook=section.rulebook,
            profile=section.profile,
            layout=section.layout,
            zero_rule=section.zero_rule,
            quarters=section.quarters,
        ),
        faults,
    )
    _check_stakes(section.stakes, f"{key}.stakes", faults)
    devices: dict[str, DeviceSettings] = {}
    for device, one in section.devices.items():
        place = f"{key}.devices.{device}"
        made = _device(config, place, device, one, section.game, rules, faults)
        if made is not None:
            devices[device] = made
    if rules is None or faults.at(key):
        return None, list(devices.values())
    setup = Setup(
        table=name,
        game=rules.game,
        variant_name=section.variant,
        variant=rules.variant,
        layout=rules.layout,
        rulebook=rules.rulebook,
        profile=rules.profile,
        rules=rules.rules,
        zero_rule=rules.zero_rule,
        quarters=section.quarters,
        stakes=Stakes(**msgspec.structs.asdict(section.stakes)),
        devices=tuple(_bound(device_name, device) for device_name, device in devices.items()),
        confirm=section.confirm,
        hold_ms=rules.rules.hold_ms,
        odds_timeout_ms=section.odds_timeout_ms,
        draw_timeout_ms=section.draw_timeout_ms,
        witness_timeout_ms=section.witness_timeout_ms,
        unresolved_void_ms=rules.rules.unresolved_void_after_s * 1000,
        gaming_date=date_of,
    )
    places = [device.driver.roles[device.section.role] for device in devices.values()]
    with faults.kept():
        check_proofs(faults.file, key, setup, places)
    return (None if faults.at(key) else TableSettings(setup, devices)), list(devices.values())


def _check_stakes(stakes: StakesSection, key: str, faults: Faults) -> None:
    if stakes.maximum < stakes.minimum and not faults.at(key):
        remedy = "give 0 <= minimum <= maximum, in minor units"
        faults.add(key, "minimum and maximum do not fit", remedy)
    if stakes.currency not in CURRENCIES:
        near = nearest(stakes.currency, CURRENCIES) or "EUR"
        remedy = f"give its three letters, e.g. {near}"
        faults.add(f"{key}.currency", f"{stakes.currency!r} is no currency of ISO 4217", remedy)


def _bound(name: str, device: DeviceSettings) -> Bound:
    role = device.section.role
    return Bound(name, device.section.driver, role, device.driver.roles[role].told_at_end)


def _device(
    config: Path,
    key: str,
    name: str,
    section: DeviceSection,
    game: str,
    rules: TableRules | None,
    faults: Faults,
) -> DeviceSettings | None:
    """A device, None where something of it is wrong. `rules`: None where those of its table are wrong."""
    section = beside(config, section, *(() if section.port.startswith(USB_PREFIX) else ("port",)))
    _check_name(faults, key, name)
    driver = DRIVERS.get(section.driver)
    if driver is None:
        faults.add(f"{key}.driver", f"no driver {section.driver!r}", choice(section.driver, DRIVERS))
        return None
    place = driver.roles.get(section.role)
    if game in GAMES and (place is None or game not in place.games):
        can_be = (f"{role} of {', '.join(sorted(one.games))}" for role, one in driver.roles.items())
        remedy = f"{driver.name} can be {'; '.join(can_be)}"
        faults.add(f"{key}.role", f"{driver.name} cannot be {section.role!r} of {game}", remedy)
    period_ms = section.status_period_ms or driver.period_ms
    for option, value in section.options.items():
        with faults.kept():
            check_option(faults.file, f"{key}.options.{option}", driver, value, period_ms)
    usb, secret = None, b""
    with faults.kept():
        usb = _usb(faults.file, key, section, driver)
    with faults.kept():
        secret = _secret(config, key, section, place) if place is not None else b""
    readings = rules.game.values(rules.layout) if rules is not None else ()
    pockets = tuple(reading[0] for reading in readings) if rules is not None and rules.game.layout else ()
    expected = section.expect.get("pockets")
    if rules is not None and section.role == "wheel" and expected not in {None, str(len(pockets))}:
        remedy = f"fit a wheel with {len(pockets)} pockets or choose another variant"
        problem = f"a wheel with {expected} pockets on a game with {len(pockets)}"
        faults.add(f"{key}.expect.pockets", problem, remedy)
    if faults.at(key):
        return None
    operator_ms = rules.rules.operator_session_s * 1000 if rules is not None else 0
    setup = DeviceSetup(
        name=name,
        role=section.role,
        game=game,
        pockets=pockets,
        readings=readings,
        period_ms=period_ms,
        silence_ms=section.silence_ms or 4 * period_ms,
        options=section.options,
        secret=secret,
        expect=section.expect,
        badges=Badges(section.badges, rules is not None and rules.rules.badge_required, operator_ms),
    )
    return DeviceSettings(key, section, driver, setup, usb)


def _usb(file: str, key: str, section: DeviceSection, driver: DriverSpec) -> UsbSettings | None:
    """The USB device that a port `usb:...` means, None for a serial port; the driver must know such."""
    if not section.port.startswith(USB_PREFIX):
        if driver.serial is None:
            remedy = "name it by usb:VID:PID as lsusb shows them"
            raise ConfigError(file, f"{key}.port", f"{driver.name} has no serial port", remedy)
        if section.baud is not None and driver.serial.baud_fixed:
            remedy = "remove it; this device takes speeds for commands"
            raise ConfigError(file, f"{key}.baud", f"the speed of {driver.name} is fixed", remedy)
        return None
    if driver.usb is None:
        remedy = "name its serial port, e.g. /dev/serial/by-id/..."
        raise ConfigError(file, f"{key}.port", f"{driver.name} is not reached by USB transfers", remedy)
    for name in ("baud", "dtr", "rts"):
        if getattr(section, name) is not None:
            raise ConfigError(file, f"{key}.{name}", "a USB device has no line", "remove it")
    try:
        return _with_defaults(section.port, driver.usb)
    except ValueError as error:
        remedy = "name it like usb:1d50:60c6:serial=00A1"
        raise ConfigError(file, f"{key}.port", str(error), remedy) from error


def _with_defaults(port: str, defaults: UsbDefaults) -> UsbSettings:
    """What the port leaves open is as the driver has it. Raises ValueError."""
    options = {"interface": str(defaults.interface), "in": f"{defaults.endpoint_in:02x}"}
    if defaults.endpoint_out is not None:
        options["out"] = f"{defaults.endpoint_out:02x}"
    open_ones = (f":{name}={value}" for name, value in options.items() if f":{name}=" not in port)
    wanted = parse_usb(port + "".join(open_ones))
    return replace(
        wanted,
        read_bytes=defaults.read_bytes,
        timeout_ms=defaults.timeout_ms,
        pause_ms=defaults.pause_ms,
    )


def _secret(config: Path, key: str, section: DeviceSection, place: Place) -> bytes:
    if not place.needs_secret:
        return b""
    remedy = "name a file that holds the key shared with the device"
    if not section.secret_file:
        raise ConfigError(str(config), f"{key}.secret_file", "missing", remedy)
    path = config.parent / section.secret_file
    secret = read_secret(path, config_file=str(config), key=f"{key}.secret_file", remedy=remedy).strip()
    if len(secret) < 16:
        raise ConfigError(str(config), f"{key}.secret_file", "shorter than 16 bytes", remedy)
    return secret


def _check_ports_differ(devices: list[DeviceSettings], faults: Faults) -> None:
    seen: dict[str, str] = {}
    for device in devices:
        other = seen.setdefault(device.section.port, device.key)
        if other != device.key:
            problem = f"port {device.section.port} is already that of {other}"
            faults.add(f"{device.key}.port", problem, "give each device its own port")
