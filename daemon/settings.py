"""TOML to frozen, checked settings.

An unknown key, a wrong type or a table that cannot prove what its rules ask is a `ConfigError` that names
file, key and remedy; nothing is guessed, nothing is ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.record import Stakes
from dollyd.daemon.core.state import Bound, Setup
from dollyd.daemon.decoding import from_toml
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.files import cure
from dollyd.daemon.gaming_day import GamingDay, gaming_day
from dollyd.daemon.named_paths import TO_READ, beside, check_own_file, check_texts, named_files
from dollyd.daemon.secret_files import read_secret
from dollyd.daemon.table_checks import check_option, check_proofs
from dollyd.daemon.table_rules import TableRules, Wanted, rules_of
from dollyd.daemon.topics import NO_TABLES, check_name
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import Badges, DeviceSetup, DriverSpec, Place, UsbDefaults
from dollyd.drivers.transports.usb_port import UsbSettings, parse_usb

SHIPPED_RULES = "fi-ray-2013"
"""Regulation whose rulebooks and profile are shipped for every game."""

USB_PREFIX = "usb:"
"""Ports that begin so are USB devices; all others are names of serial ports."""

T = TypeVar("T")
Positive = Annotated[int, Meta(gt=0)]
NotNegative = Annotated[int, Meta(ge=0)]


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every section; an unknown key refuses to start."""


class JournalSection(_Section, frozen=True):
    """Where the journal lies, how much of raw captures it keeps, and how often it is summed up."""

    path: str
    captures_max_mb: Positive = 500
    low_mb: NotNegative = 200
    """With less free on the journal's disk, raw captures are no longer kept."""
    floor_mb: NotNegative = 50
    """With less free, no new round is opened; the rest is for the rounds in progress."""
    keep_days: Positive | None = None
    """Older records go, where they are sealed, exported and acknowledged; None keeps all."""
    checkpoint_every_s: Positive = 3600
    """A chain that has new records gets a checkpoint so often, and when its table closes or we stop."""
    verify_every_h: NotNegative = 24
    """The whole journal is verified so often, in the background; 0: never."""


class SigningSection(_Section, frozen=True):
    """The node's private key, a PEM file that only its owner may read, and whom the site trusts."""

    key: str
    next_key: str = ""
    """The key that takes over at a start or SIGHUP, announced by `key`; afterwards it becomes `key`."""
    trust: str = ""
    """The site's trust file."""
    publish_trust: bool = True
    """Whether this node publishes it for consumers: one of the site does, all others say false here."""
    root: str = ""
    """Thumbprint (`kid`) of the root key that the trust file is checked against."""


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
    lag_records: Positive = 200
    lag_s: Positive = 60
    """A consumer that is further behind, by its own acknowledgements, is an incident."""


class DeskSection(_Section, frozen=True):
    """With what `dollyd table --config` comes to the brokers; the daemon itself does not read these files.

    Nothing given: as the node, which a broker with the shipped access list lets neither read nor order.
    """

    username: str = ""
    password_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class MetricsSection(_Section, frozen=True):
    """Figures for those who scrape."""

    file: str = ""
    """OpenMetrics text, replaced every few seconds, e.g. for node_exporter; empty: none."""


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
    badges: dict[str, Literal["dealer", "inspector", "pit-boss"]] = {}
    """A console: whose badge is worth what; empty, whoever is at the console is the dealer."""
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
    layout: str = ""
    """Order of the pockets, cups or sectors: needed where it is measured at the device."""
    quarters: bool = False
    confirm: Literal["auto", "dealer"] = "auto"
    odds_timeout_ms: Positive = 5_000
    draw_timeout_ms: Positive = 120_000
    witness_timeout_ms: Positive = 1_000
    """After the first reading all other witnesses must have spoken within this time."""


class _File(_Section, frozen=True):
    site: str
    node: str
    journal: JournalSection
    signing: SigningSection
    tables: dict[str, dict[str, Any]]
    mqtt: MqttSection = MqttSection()
    desk: DeskSection = DeskSection()
    metrics: MetricsSection = MetricsSection()
    gaming_day: GamingDaySection = GamingDaySection()


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


def load(path: Path) -> Settings:
    """Read and check a configuration. Raises `ConfigError`."""
    file = str(path)
    try:
        tree = from_toml(path.read_bytes())
    except OSError as error:
        remedy = cure(error, "give the path of a readable file")
        raise ConfigError(file, "", error.strerror or str(error), remedy) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, "", f"not valid TOML: {error}", "correct the line that is named") from error
    check_texts(file, tree)
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
    if head.journal.floor_mb > head.journal.low_mb:
        problem = f"{head.journal.floor_mb} is more than journal.low_mb, {head.journal.low_mb}"
        raise ConfigError(file, "journal.floor_mb", problem, "give a floor below the low mark")
    check_own_file(file, "journal.path", head.journal.path)
    if head.metrics.file:
        check_own_file(file, "metrics.file", head.metrics.file)
    tables = {name: _table(path, name, section, date_of) for name, section in head.tables.items()}
    _check_ports_differ(file, tables)
    return Settings(
        file=file,
        site=head.site,
        node=head.node,
        journal=beside(path, head.journal, "path"),
        signing=beside(path, head.signing, *TO_READ["signing"]),
        mqtt=beside(path, head.mqtt, *TO_READ["mqtt"]),
        desk=beside(path, head.desk, "password_file", "cert_file", "key_file"),
        tables=tables,
        metrics=beside(path, head.metrics, "file"),
        gaming_date=date_of,
        files=named_files(path, tree),
    )


def shipped_table(game: str, variant: str, driver: str) -> TableSettings:
    """A table with one device under the shipped rules, for replays. Raises `ConfigError`."""
    spec = DRIVERS.get(driver)
    if spec is None:
        raise ConfigError("dollyd", "driver", f"no driver {driver!r}", f"choose one of {', '.join(DRIVERS)}")
    reading = GAMES[game].roles if game in GAMES else frozenset()
    role = min(reading & spec.roles.keys(), default=min(spec.roles))
    device = {"driver": driver, "role": role, "port": "none"}
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


def _table(config: Path, name: str, tree: Any, date_of: Callable[[int], str]) -> TableSettings:
    file, key = str(config), f"tables.{name}"
    _check_name(file, key, name)
    if name in NO_TABLES:
        raise ConfigError(file, key, f"no table may be called {name!r}", "choose another name")
    section = _convert(file, key, tree, TableSection)
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
        )
    )
    stakes = Stakes(**msgspec.structs.asdict(section.stakes))
    if stakes.maximum < stakes.minimum:
        remedy = "give 0 <= minimum <= maximum, in minor units"
        raise ConfigError(file, f"{key}.stakes", "minimum and maximum do not fit", remedy)
    devices = {
        device: _device(config, f"{key}.devices.{device}", device, tree, rules)
        for device, tree in section.devices.items()
    }
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
        stakes=stakes,
        devices=tuple(_bound(device_name, device) for device_name, device in devices.items()),
        confirm=section.confirm,
        hold_ms=rules.rules.hold_ms,
        odds_timeout_ms=section.odds_timeout_ms,
        draw_timeout_ms=section.draw_timeout_ms,
        witness_timeout_ms=section.witness_timeout_ms,
        unresolved_void_ms=rules.rules.unresolved_void_after_s * 1000,
        gaming_date=date_of,
    )
    check_proofs(file, key, setup, [device.driver.roles[device.section.role] for device in devices.values()])
    return TableSettings(setup, devices)


def _bound(name: str, device: DeviceSettings) -> Bound:
    role = device.section.role
    return Bound(name, device.section.driver, role, device.driver.roles[role].told_at_end)


def _device(config: Path, key: str, name: str, tree: Any, rules: TableRules) -> DeviceSettings:
    file, game = str(config), rules.game.name
    readings = rules.game.values(rules.layout)
    pockets = tuple(reading[0] for reading in readings) if rules.game.layout else ()
    _check_name(file, key, name)
    section = _convert(file, key, tree, DeviceSection)
    driver = DRIVERS.get(section.driver)
    if driver is None:
        remedy = f"choose one of {', '.join(DRIVERS)}"
        raise ConfigError(file, f"{key}.driver", f"no driver {section.driver!r}", remedy)
    place = driver.roles.get(section.role)
    if place is None or game not in place.games:
        can_be = (f"{role} of {', '.join(sorted(one.games))}" for role, one in driver.roles.items())
        remedy = f"{driver.name} can be {'; '.join(can_be)}"
        raise ConfigError(file, f"{key}.role", f"{driver.name} cannot be {section.role!r} of {game}", remedy)
    period_ms = section.status_period_ms or driver.period_ms
    for option, value in section.options.items():
        check_option(file, f"{key}.options.{option}", driver, value, period_ms)
    expected = section.expect.get("pockets")
    if section.role == "wheel" and expected is not None and expected != str(len(pockets)):
        remedy = f"fit a wheel with {len(pockets)} pockets or choose another variant"
        problem = f"a wheel with {expected} pockets on a game with {len(pockets)}"
        raise ConfigError(file, f"{key}.expect.pockets", problem, remedy)
    setup = DeviceSetup(
        name=name,
        role=section.role,
        game=game,
        pockets=pockets,
        readings=readings,
        period_ms=period_ms,
        silence_ms=section.silence_ms or 4 * period_ms,
        options=section.options,
        secret=_secret(config, key, section, place),
        expect=section.expect,
        badges=Badges(section.badges, rules.rules.badge_required, rules.rules.operator_session_s * 1000),
    )
    return DeviceSettings(key, section, driver, setup, _usb(file, key, section, driver))


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


def _check_ports_differ(file: str, tables: Mapping[str, TableSettings]) -> None:
    seen: dict[str, str] = {}
    for table in tables.values():
        for device in table.devices.values():
            other = seen.setdefault(device.section.port, device.key)
            if other != device.key:
                problem = f"port {device.section.port} is already that of {other}"
                raise ConfigError(file, f"{device.key}.port", problem, "give each device its own port")
