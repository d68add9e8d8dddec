"""The sections of a configuration: every key with its type, its default, its unit and its meaning.

docs/configuration.md, dollyd.toml(5), `dollyd config print` and config/schemas/config.json are made of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(gt=0)]
NotNegative = Annotated[int, Meta(ge=0)]


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every section; an unknown key refuses to start."""


class JournalSection(Section, frozen=True):
    """Where the journal lies, how much of raw captures it keeps, and how often it is summed up."""

    path: Annotated[str, Meta(examples=["/var/lib/dollyd/journal.db"])]
    """The file with every record of this node, on a local disk; made at the first start."""
    captures_max_mb: Positive = 500
    """Raw captures beyond this many megabytes go, the oldest first; records are never dropped for it."""
    low_mb: NotNegative = 200
    """With fewer megabytes free on the journal's disk, raw captures are no longer kept."""
    floor_mb: NotNegative = 50
    """With fewer megabytes free, no new round is opened; the rest is for the rounds in progress."""
    keep_days: Annotated[Positive | None, Meta(examples=[365])] = None
    """Records older than so many days go, once sealed, exported and acknowledged; without it none do."""
    checkpoint_every_s: Positive = 3600
    """Seconds after which a chain with new records gets a checkpoint; and at the close of its table."""
    verify_every_h: NotNegative = 24
    """Hours between two verifications of the whole journal in the background; 0: never."""


class SigningSection(Section, frozen=True):
    """The node's private key, a PEM file that only its owner may read, and whom the site trusts."""

    key: Annotated[str, Meta(examples=["/etc/dollyd/signing.pem"])]
    """The node's private key; `dollyd keys new` makes it. Nobody but its owner may read it."""
    next_key: str = ""
    """The key that takes over at a start or SIGHUP, announced by `key`; afterwards it becomes `key`."""
    trust: str = ""
    """The site's trust file."""
    publish_trust: bool = True
    """Whether this node publishes it for consumers: one of the site does, all others say false here."""
    root: str = ""
    """Thumbprint (`kid`) of the root key that the trust file is checked against; needed with `trust`."""


class MqttSection(Section, frozen=True):
    """The brokers, and how this node shows who it is."""

    brokers: Annotated[tuple[str, ...], Meta(min_length=1)] = ("localhost:1883",)
    """Tried in order: `host:port`, or `mqtts://host:port` for TLS."""
    protocol: Literal["5", "3.1.1"] = "5"
    """The version of MQTT that the brokers speak."""
    client_id: str = ""
    """The node's name at the broker; empty: made of site and node."""
    username: str = ""
    """The node's user at the broker, where it asks for one."""
    password_file: str = ""
    """The file with that user's password. Nobody but its owner may read it."""
    ca_file: str = ""
    """The authority that signed the brokers' certificates (PEM); empty: those that the machine trusts."""
    cert_file: str = ""
    """This node's own certificate (PEM), where the broker asks for one; read anew for each connection."""
    key_file: str = ""
    """The private key of that certificate (PEM). Nobody but its owner may read it."""
    keepalive_s: Annotated[int, Meta(ge=1, le=10)] = 10
    """A dead link is found within twice so many seconds."""
    lag_records: Positive = 200
    """A consumer that is so many records behind, by its own acknowledgements, is an incident."""
    lag_s: Positive = 60
    """So is one whose oldest open record is so many seconds old."""


class DeskSection(Section, frozen=True):
    """With what `dollyd table --config` comes to the brokers; the daemon itself does not read these files.

    Nothing given: as the node, which a broker with the shipped access list lets neither read nor order.
    """

    username: str = ""
    """The user at the broker of those who give orders."""
    password_file: str = ""
    """The file with that user's password. Nobody but its owner may read it."""
    cert_file: str = ""
    """That user's certificate (PEM)."""
    key_file: str = ""
    """The private key of that certificate (PEM). Nobody but its owner may read it."""


class MetricsSection(Section, frozen=True):
    """Figures for those who scrape."""

    file: str = ""
    """OpenMetrics text, replaced every few seconds, e.g. for node_exporter; empty: none."""


class GamingDaySection(Section, frozen=True):
    """When a gaming day begins, in the site's local time."""

    timezone: str = "UTC"
    """A name of the time zone database, e.g. `Europe/Helsinki`."""
    boundary: str = "06:00"
    """Hour and minute at which a gaming day begins; what comes before belongs to the evening before."""


class DeviceSection(Section, frozen=True):
    """One device at a table."""

    driver: Annotated[str, Meta(examples=["cammegh-ss2"])]
    """What it speaks: one of the drivers below."""
    role: Annotated[str, Meta(examples=["wheel"])]
    """What it is at this table: a role that its driver has for this game."""
    port: Annotated[str, Meta(examples=["/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0"])]
    """`/dev/serial/by-id/...`, which stays when a plug is moved, or `usb:VID:PID:serial=...`."""
    baud: Annotated[Positive | None, Meta(examples=[9600])] = None
    """Speed of the serial line, in Bd; that of the driver unless set."""
    dtr: Annotated[bool | None, Meta(examples=[True])] = None
    """Level of the line's DTR while it is open; left to the kernel unless set."""
    rts: Annotated[bool | None, Meta(examples=[True])] = None
    """Level of the line's RTS while it is open; left to the kernel unless set."""
    status_period_ms: Annotated[Positive | None, Meta(examples=[500])] = None
    """How often the device speaks by itself, in milliseconds; that of the driver unless set."""
    silence_ms: Annotated[Positive | None, Meta(examples=[2000])] = None
    """Milliseconds of silence inside a draw that are a gap in the evidence; 4 periods unless set."""
    options: dict[str, Any] = {}
    """What its driver can be told: see the drivers below."""
    secret_file: str = ""
    """The key shared with an odds box, 16 bytes at least. Nobody but its owner may read the file."""
    badges: dict[str, Literal["dealer", "inspector", "pit-boss"]] = {}
    """A console: whose badge is worth what; empty, whoever is at the console is the dealer."""
    expect: dict[str, str] = {}
    """Identity that the device must show; another device is `wrong-device`, and its numbers do not count."""


class StakesSection(Section, frozen=True):
    """Limits on the table's sign, integer minor units of `currency`."""

    minimum: Annotated[NotNegative, Meta(examples=[100])]
    """The smallest stake, in minor units (cents)."""
    maximum: Annotated[NotNegative, Meta(examples=[100_000])]
    """The largest stake, in minor units."""
    currency: Annotated[str, Meta(examples=["EUR"])]
    """Three letters of ISO 4217, e.g. `EUR`."""


class TableSection(Section, frozen=True):
    """One gaming table."""

    game: Annotated[str, Meta(examples=["roulette"])]
    """What is played at it."""
    variant: Annotated[str, Meta(examples=["A"])]
    """The variant of the game, as its rulebook names it."""
    rulebook: Annotated[str, Meta(examples=["fi-ray-2013-roulette"])]
    """The game's rules: a name that is shipped, or the path of a .toml of your own."""
    profile: Annotated[str, Meta(examples=["fi-ray-2013"])]
    """What the jurisdiction asks of a round: a name that is shipped, or the path of a .toml of your own."""
    stakes: StakesSection
    devices: dict[str, DeviceSection]
    zero_rule: str = ""
    """What zero does to even chances, where the variant has a choice: `lose`, `half`, `prison`, `both`."""
    layout: str = ""
    """Order of the pockets, cups or sectors: needed where it is measured at the device."""
    quarters: bool = False
    """Whether the cloth shows quarter bets."""
    confirm: Literal["auto", "dealer"] = "auto"
    """Whether a clean reading is the result by itself, or a dealer confirms each."""
    odds_timeout_ms: Positive = 5_000
    """Milliseconds that the odds box has to draw the odds table of a round."""
    draw_timeout_ms: Positive = 120_000
    """Milliseconds that a draw may take, from no more bets, or without them from its own start."""
    witness_timeout_ms: Positive = 1_000
    """After the first reading all other witnesses must have spoken within so many milliseconds."""


class Configuration(Section, frozen=True):
    """The whole file."""

    site: Annotated[str, Meta(examples=["helsinki-1"])]
    """Name of the site: 1 to 40 of a-z, 0-9 and -, for it stands in MQTT topics."""
    node: Annotated[str, Meta(examples=["pit3-box1"])]
    """Name of this box, one of its own within the site; made of the same letters."""
    journal: JournalSection
    signing: SigningSection
    tables: dict[str, TableSection]
    mqtt: MqttSection = MqttSection()
    desk: DeskSection = DeskSection()
    metrics: MetricsSection = MetricsSection()
    gaming_day: GamingDaySection = GamingDaySection()
