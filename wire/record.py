"""Record kinds and their exact bytes (design section 6).

A record is one header and one body. The body comes from the core and can be derived again from the raw
capture; the header says where the record stands in the chain. It is serialised once, by `encode`, and what
is signed is what is stored and sent. No floats, no null (what is not known is left out), ASCII keys; fields
in the order written here. `00` is the text `"00"`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

VERSION = 1
TYP = "dolly-record/1"
"""JWS header `typ`: payload type and version."""
NO_PREVIOUS = "0" * 64
"""`prev` of the first record of a chain."""

Name: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,40}$(?!\n)")]
"""Of a site, node or table. A `$` of Python also stands before a last line end."""
ChainName: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)")]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""What is counted or numbered: exact in every language's numbers."""


class Kind(StrEnum):
    """Every kind of record."""

    SESSION = "session"
    ROUND = "round"
    BETS_CLOSED = "bets-closed"
    RESULT = "result"
    VOID = "void"
    UNRESOLVED = "unresolved"
    CORRECTION = "correction"
    THROW_REJECTED = "throw-rejected"
    INCIDENT = "incident"
    GAP = "gap"
    KEY = "key"
    CLOCK = "clock"
    CHECKPOINT = "checkpoint"
    SELF_CHECK = "self-check"


FINAL_KINDS = frozenset({Kind.RESULT, Kind.VOID})
"""One of these, once, ends a round."""


class _Part(Struct, frozen=True, omit_defaults=True):
    """Base of everything inside a record."""


class Moment(_Part, frozen=True, kw_only=True):
    """One instant: UTC for people, monotonic nanoseconds since boot for durations."""

    utc: str
    monotonic_ns: int
    """Beyond 2^53 after 104 days of uptime: JavaScript needs a parser that keeps it, or leaves it alone."""


class Time(_Part, frozen=True, kw_only=True):
    """When a record was decided, and how good the clock was."""

    utc: str
    monotonic_ns: int
    """As in `Moment`: beyond 2^53 after 104 days of uptime."""
    boot: str
    """The boot that it counts from: only times of one boot can be compared."""
    synchronised: bool
    error_bound_us: int
    """Largest error of UTC that the time service vouches for; -1 = not known."""


class Named(_Part, frozen=True, kw_only=True):
    """A rulebook or profile by name and SHA-256 of its file."""

    id: str
    digest: str


class Stakes(_Part, frozen=True, kw_only=True):
    """Limits on the table's sign, integer minor units of `currency`."""

    minimum: int
    maximum: int
    currency: str


class Setting(_Part, frozen=True, kw_only=True):
    """What is being played."""

    game: str
    variant: str
    rulebook: Named
    profile: Named
    zero_rule: str | UnsetType = UNSET
    """Roulette: what zero does to simple chances (`lose`, `half`, `prison`, `both`)."""


class Odds(_Part, frozen=True, kw_only=True):
    """The odds table of roulette variant B and the proof of its draw."""

    table: int
    """1: the rulebook's `odds`; 2: its `odds_table_2`."""
    device: str
    counter: int
    nonce: str
    proof: str
    drawn: Moment


class Device(_Part, frozen=True, kw_only=True):
    """A device at the table and what it said it is."""

    name: str
    driver: str
    role: str
    identity: dict[str, str]


class Witness(_Part, frozen=True, kw_only=True):
    """What one device showed of the draw."""

    device: str
    game: str
    value: list[str]
    """The reading, empty where there was none."""
    flags: list[str]
    defects: list[str]
    relaunches: int
    turns_basis: str
    """How turns are known: `certified`, `counted`, `reported` or `none`."""
    ball_turns_x100: int | UnsetType = UNSET
    """Turns in hundredths: 4 full turns are 400."""
    wheel_turns_x100: int | UnsetType = UNSET
    turns_lower_bound: bool = False
    ball_direction: str | UnsetType = UNSET
    wheel_direction: str | UnsetType = UNSET
    details: dict[str, str]


class Times(_Part, frozen=True, kw_only=True):
    """The facts of the round with their times; what has not happened is left out."""

    opened: Moment | UnsetType = UNSET
    bets_closed: Moment | UnsetType = UNSET
    draw_started: Moment | UnsetType = UNSET
    at_rest: Moment | UnsetType = UNSET
    confirmed: Moment | UnsetType = UNSET


class Capture(_Part, frozen=True, kw_only=True):
    """The raw frames behind a decision: SHA-256 over the capture's exact bytes, and its lines."""

    digest: str
    lines: int


class Evidence(_Part, frozen=True, kw_only=True):
    """Why the decision is what it is."""

    game_ref: str
    times: Times
    bets_closed_by: str | UnsetType = UNSET
    confirmed_by: str | UnsetType = UNSET
    """`auto` after the hold, or the person who confirmed it."""
    devices: list[Device]
    witnesses: list[Witness]
    capture: Capture | UnsetType = UNSET


class Approval(_Part, frozen=True, kw_only=True):
    """One of the two persons behind a decision by hand.

    `command` is the signed command, exact bytes: every verifier checks it again.
    """

    operator: str
    role: str
    command: str


class SessionBody(_Part, frozen=True, kw_only=True):
    """The table was `opened`, `resumed` after a restart, or `closed` (rulebook 2.11)."""

    event: str
    by: str
    """The operator's `id` in the trust file, the badge at the console, or `configuration`: nobody had to."""
    setting: Setting
    gaming_date: str
    stakes: Stakes
    opened_at: str
    closed_at: str | UnsetType = UNSET
    checks: dict[str, str] | UnsetType = UNSET
    """What was checked before the table was opened, by name, and how it was found."""


class RoundBody(_Part, frozen=True, kw_only=True):
    """A round was opened for bets."""

    game_ref: str
    """The game as its device calls it: device, its run, and the number of the game there."""
    opened: Moment


class BetsClosedBody(_Part, frozen=True, kw_only=True):
    """No more bets."""

    by: str
    """The device that said so, by its name at the table, or the person as in `session`."""
    closed: Moment


class ResultBody(_Part, frozen=True, kw_only=True):
    """The outcome that counts. `mode`: `auto`, or `manual` where two persons entered it."""

    setting: Setting
    gaming_date: str
    stakes: Stakes
    outcome: dict[str, str | int | bool | list[str]]
    """What came, by game: see "Outcomes"."""
    odds: Odds | UnsetType = UNSET
    """Roulette B only: by which of the two tables of odds bets are paid."""
    mode: str
    reason: str | UnsetType = UNSET
    """Why it was entered by hand."""
    approvals: list[Approval] | UnsetType = UNSET
    """The two persons, the one who proposed first."""
    evidence: Evidence


class VoidBody(_Part, frozen=True, kw_only=True):
    """The round does not count, by a rule or an entitled person."""

    rule: str
    """One of "Rules of a void round"."""
    clause: str
    """The regulation's, or what else the rule rests on."""
    text: str
    stake_policy: str
    """What the profile says of the stakes: `player_choice`, `returned`, `carried` or `unstated`."""
    setting: Setting
    gaming_date: str
    declared_by: str | UnsetType = UNSET
    """The person, where a person declared it."""
    role: str | UnsetType = UNSET
    judged_by: str | UnsetType = UNSET
    """Who found that the round does not count, where that was another person."""
    judged_role: str | UnsetType = UNSET
    odds: Odds | UnsetType = UNSET
    """A void round consumes its draw of the odds table (rulebook 2.8)."""
    evidence: Evidence


class ThrowRejectedBody(_Part, frozen=True, kw_only=True):
    """A throw of the dice that does not count; the round goes on, stakes stay locked, the shooter too."""

    rule: str
    """One of "Rules of a rejected throw"."""
    clause: str
    text: str
    setting: Setting
    gaming_date: str
    throw: int
    """The how manyth throw of this round."""
    shooter: str | UnsetType = UNSET
    declared_by: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    evidence: Evidence


class UnresolvedBody(_Part, frozen=True, kw_only=True):
    """We cannot know; people must close the round."""

    rule: str
    """One of "Rules of an unresolved round"."""
    text: str
    setting: Setting
    gaming_date: str
    odds: Odds | UnsetType = UNSET
    evidence: Evidence


class Finding(_Part, frozen=True, kw_only=True):
    """How a round ended: a `result` with its outcome, or a `void` by a rule."""

    kind: str
    outcome: dict[str, str | int | bool | list[str]] | UnsetType = UNSET
    """Of a `result`, as in a `result` record."""
    rule: str | UnsetType = UNSET
    """Of a `void`: that of the record, or `corrected` where people made it void."""
    stake_policy: str | UnsetType = UNSET


class CorrectionBody(_Part, frozen=True, kw_only=True):
    """A published round was wrong: the physical outcome wins (rulebook 12.1: B.3.2, 4.18.5 c).

    The record that it corrects stays as it is. Settlement takes back what it did by `before` and settles by
    `after`, under the setting, stakes and odds table of the round.
    """

    id: str
    """SHA-256 of the proposal, which both persons signed."""
    corrects: int
    """`seq` of the record corrected, in this chain."""
    element: str
    """`outcome`, or `verdict` where a result becomes a void or a void a result."""
    before: Finding
    after: Finding
    setting: Setting
    gaming_date: str
    stakes: Stakes | UnsetType = UNSET
    odds: Odds | UnsetType = UNSET
    reason: str
    approvals: list[Approval]


class IncidentBody(_Part, frozen=True, kw_only=True):
    """Something worth knowing that decides no round."""

    what: str
    device: str | UnsetType = UNSET
    text: str
    details: dict[str, str]


class GapBody(_Part, frozen=True, kw_only=True):
    """What was not recorded, and why: games played while no round was open, downtime."""

    cause: str
    games: list[str]
    """The device games that were missed; the first ones where there were many."""
    count: int
    since_utc: str | UnsetType = UNSET
    down_ms: int | UnsetType = UNSET
    """How long the daemon was down by the monotonic clock, which needs no date; left out after a reboot."""


class KeyBody(_Part, frozen=True, kw_only=True):
    """A key enters the chain: with its first record (`chain-start`), or after the old one (`rotated`).

    A `rotated` record is signed by the old key; the record after it is the first one of the new key.
    """

    event: str
    jwk: dict[str, str]
    reason: str
    previous_chain: ChainName | UnsetType = UNSET
    previous_seq: Count | UnsetType = UNSET


class CheckpointBody(_Part, frozen=True, kw_only=True):
    """Where the chain stood: all records up to `seq`, by the digest of the last one's envelope.

    It says what its own `seq` and `prev` say, as a statement of its own that can be kept, shown and
    countersigned without the records before it.
    """

    reason: str
    """`hourly`, `table-closed`, `stopped`, or `asked`."""
    seq: Count
    head: str
    finals: Count
    """Rounds that have a final record up to here, in this chain."""


class SelfCheckBody(_Part, frozen=True, kw_only=True):
    """Whether the installed program is the one that was built: its files against the build's manifest."""

    reason: str
    """`start`, `daily`, or `asked`."""
    version: str
    python: str
    result: str
    """`good`, `bad`, or `unsealed` where there is no manifest, as in a source checkout."""
    manifest: str | UnsetType = UNSET
    """SHA-256 of the manifest, whose lines are those of sha256sum(1)."""
    files: int
    """Files that were read."""
    differing: int
    """Files that are changed, missing or not of the build."""
    differs: list[str]
    """The first of them, each as `changed`, `missing` or `added` and its path."""


class ClockBody(_Part, frozen=True, kw_only=True):
    """UTC moved against the monotonic clock, or began or ceased to be synchronised.

    Times of earlier records of the same boot were wrong by as much, back to the step or the start before it.
    """

    step_ns: int
    """How far UTC moved; positive: it had been behind."""
    cause: str | UnsetType = UNSET
    """`restart`: the step is told by the last record before the daemon came up, in the same boot."""
    synchronised: bool | UnsetType = UNSET
    """Whether the kernel vouches for UTC from here on; left out where that did not change."""
    gaming_date: str | UnsetType = UNSET
    """The gaming date from here on, where the step changed it ..."""
    gaming_date_before: str | UnsetType = UNSET
    """... and the wrong one, which stands in earlier records."""


Body: TypeAlias = (
    SessionBody
    | RoundBody
    | BetsClosedBody
    | ResultBody
    | VoidBody
    | ThrowRejectedBody
    | UnresolvedBody
    | CorrectionBody
    | IncidentBody
    | GapBody
    | KeyBody
    | CheckpointBody
    | SelfCheckBody
    | ClockBody
)

BODIES: dict[Kind, type[Struct]] = {
    Kind.SESSION: SessionBody,
    Kind.ROUND: RoundBody,
    Kind.BETS_CLOSED: BetsClosedBody,
    Kind.RESULT: ResultBody,
    Kind.VOID: VoidBody,
    Kind.THROW_REJECTED: ThrowRejectedBody,
    Kind.UNRESOLVED: UnresolvedBody,
    Kind.CORRECTION: CorrectionBody,
    Kind.INCIDENT: IncidentBody,
    Kind.GAP: GapBody,
    Kind.KEY: KeyBody,
    Kind.CHECKPOINT: CheckpointBody,
    Kind.SELF_CHECK: SelfCheckBody,
    Kind.CLOCK: ClockBody,
}
"""Which body each kind has; a kind that is not here is not written yet."""


class Record(_Part, frozen=True, kw_only=True):
    """The whole payload. `seq` counts per chain from 1; `round` is 0 where no round is concerned."""

    v: int
    kind: str
    site: Name
    node: Name
    table: Name
    chain: ChainName
    seq: Count
    prev: str
    round: Count
    time: Time
    body: msgspec.Raw


_ENCODER = msgspec.json.Encoder()


def encode(value: Struct) -> bytes:
    """The exact bytes of a body or record."""
    return _ENCODER.encode(value)
