"""What is kept of the games of a TLP/1 device (tlp-1.md 5): the game in progress, its facts, its flags.

What a game has shown is kept in its facts. What is doubtful only if a number follows is kept in `doubts`: a
fault that ends the game is a void, not a doubt. How a game goes on is told by `tlp_games`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dollyd.daemon.core.events import (
    Defect,
    DeviceEvent,
    DrawFacts,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameRef,
)
from dollyd.drivers.agreement import both_kept
from dollyd.drivers.protocols.tlp.device import TlpDevice, whole_of
from dollyd.drivers.spec import DeviceSetup
from dollyd.wire.stamp import NS_PER_MS

BEFORE_GAME, PLACE_BETS, MOVING, NO_MORE_BETS, AT_REST, CLOSED = range(1, 7)
"""States of clause 5."""

MISSING_MAX = 16
"""Numbers kept of sentences that were not heard in a draw; a `RES` fills its own, more are never filled."""
DIRECTIONS = {"0": "clockwise", "1": "counter-clockwise"}


@dataclass(frozen=True, slots=True)
class FlagTable:
    """What the flags of a kind mean."""

    flags: Mapping[int, Flag]
    """Matters for the rules."""
    doubts: Mapping[int, Defect]
    """Decisive if a number follows."""
    fault: int
    """The device is out of order while one of these stands."""
    moving: int
    """What counts while the draw moves; everything else only in `RES`, at rest."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of device is to the games that it plays."""

    talker: str
    hello: str
    """`kind` in its `HEL`."""
    path: tuple[int, ...]
    """The way of a game; the first state is where it begins."""
    flags_at: int
    """Place of the flags in `STA`."""
    table: FlagTable


@dataclass(frozen=True, slots=True)
class Travel:
    """Passes of a money wheel; see `tlp_money_wheel`."""

    sector: int = 0
    """Under the pointer, 0 = not known."""
    forward: bool | None = None
    run: int = 0
    """Passes since the last change of direction."""
    longest: int = 0
    longest_forward: bool | None = None
    """Direction of the longest way, None where there is none yet."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How a device numbers its events of one kind in this draw."""

    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One game of the device, as far as it was seen."""

    ref: GameRef
    state: int
    facts: DrawFacts = field(default_factory=DrawFacts)
    joined: bool = False
    """Under way when first heard, or not begun as a game begins: nothing is told of it."""
    doubts: tuple[Defect, ...] = ()
    failing: bool = False
    """The launch has failed and is tried again."""
    direction: str = ""
    """Of the rotor, as `STA` told it last after no more bets."""
    travel: Travel = field(default_factory=Travel)
    tallies: tuple[Tally, ...] = ()
    tallies_from_one: bool = True
    """Nothing was counted, or may have been, before the draw."""
    total: str = ""
    """What `STA` showed last in the draw of that of which `RES` gives the total."""
    dropped: str = ""
    """The total that a ball detector told with the drop."""
    result: tuple[str, ...] = ()
    """The fields of its `RES`, as first heard."""
    done: bool = False
    """What it had to tell was told."""
    contradicted: bool = False

    @property
    def open(self) -> bool:
        """Whether it may still come to a reading."""
        return not self.done and not self.joined and not self.facts.defects


@dataclass(frozen=True, slots=True)
class Heard:
    """The `RES` that was heard last."""

    seq: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GamesState:
    """What is remembered of games; a frozen value."""

    attempt: Attempt | None = None
    before: int = 0
    """State of the last `STA` of this connection, 0 = none heard."""
    sta_at_ns: int = 0
    missing: tuple[int, ...] = ()
    """Numbers of sentences that were not heard since the device was last seen at the begin of a game."""
    hidden: tuple[int, ...] = ()
    """Those of them since the draw was last seen moving: one may have been another `RES`."""
    finished: str = ""
    """Number of the last game that came to a `RES`; the next game must have another."""
    last: GameRef | None = None
    """The last game of this connection."""
    epoch: int = 0
    """How often its numbers have begun anew in this connection."""
    heard: Heard | None = None
    earlier: tuple[str, ...] = ()
    """Fields of the `RES` before `heard` that was of another game."""
    read: Attempt | None = None
    """The last game that was told; its device may still contradict itself."""


class GameKeeper(TlpDevice[GamesState]):
    """A device with a game in progress, to which facts come."""

    def __init__(self, setup: DeviceSetup, kind: Kind) -> None:
        super().__init__(setup, kind.talker, kind.hello, GamesState())
        self._kind_of = kind
        self._silence_ns = setup.silence_ms * NS_PER_MS

    def _on_flags(self, bits: int) -> None:
        """What a kind makes of the flags of a `STA` or `FLT`, whatever the state of the game."""

    def _flagged(self, bits: int) -> None:
        """Flags of a `STA` or `FLT`; at rest only the `RES` counts."""
        attempt, table = self._own.attempt, self._kind_of.table
        self._on_flags(bits)
        if attempt and attempt.state in (MOVING, NO_MORE_BETS):
            self._note_flags(bits & table.moving)
        elif attempt and attempt.state == PLACE_BETS:
            self._note_flags(bits & table.fault)

    def _note_flags(self, bits: int) -> None:
        attempt, table = self._own.attempt, self._kind_of.table
        if attempt is None or attempt.done:
            return
        doubts = [doubt for bit, doubt in table.doubts.items() if bits & bit and doubt not in attempt.doubts]
        self._change(doubts=(*attempt.doubts, *doubts))
        known = attempt.facts.flags
        flags = [flag for bit, flag in table.flags.items() if bits & bit and flag not in known]
        if flags:
            self._learn(flags=(*known, *flags))

    def _doubt(self, doubt: Defect) -> None:
        attempt = self._own.attempt
        if attempt and doubt not in attempt.doubts:
            self._change(doubts=(*attempt.doubts, doubt))

    def _spoil(self, defect: Defect) -> None:
        """The evidence is not complete and consistent: this game gives no reading."""
        attempt = self._own.attempt
        if attempt and not attempt.done and defect not in attempt.facts.defects:
            self._learn(defects=(*attempt.facts.defects, defect))

    def _compare(
        self,
        what: str,
        one: str,
        other: str,
        *,
        agree: bool,
        doubt: Defect = Defect.WITNESSES_DISAGREE,
    ) -> None:
        """Two readings of one thing in this draw: a doubt that names both, unless they agree."""
        attempt = self._own.attempt
        if agree or attempt is None or attempt.done:
            return
        self._change(facts=both_kept(attempt.facts, what, one, other))
        self._doubt(doubt)

    def _tally(self, what: str, text: str) -> None:
        """The number that an event bears among its kind; an empty one is not known."""
        attempt, number = self._own.attempt, whole_of(text)
        if attempt is None or number is None:
            return
        before = {tally.what: tally.number for tally in attempt.tallies}
        lost = bool(self._own.missing)
        if what in before:
            agree = number == before[what] + 1 or (lost and number > before[what])
        else:
            agree = number == 1 or lost or not attempt.tallies_from_one
        agree = agree or attempt.state == PLACE_BETS  # what moves before the draw counts for nothing
        due = before.get(what, 0) + 1
        doubt = Defect.COUNTS_DIFFER
        self._compare(f"{what.lower()}_number", f"{what} {number}", f"due {due}", agree=agree, doubt=doubt)
        tallies = tuple(Tally(*pair) for pair in sorted((before | {what: number}).items()))
        self._change(tallies=tallies)

    def _gap(self, *states: int) -> None:
        """Something may have been missed, if the game is in one of these states."""
        attempt = self._own.attempt
        if attempt and attempt.state in states and not attempt.result:
            self._spoil(Defect.DATA_GAP)

    def _learn(self, **facts: Any) -> None:
        """New facts that are news."""
        self._note(**facts)
        if (attempt := self._own.attempt) and not attempt.done:
            self._tell(DrawUpdate(attempt.ref, attempt.facts))

    def _note(self, **facts: Any) -> None:
        """New facts that are told with the next news."""
        if attempt := self._own.attempt:
            self._change(facts=replace(attempt.facts, **facts))

    def _end(self, how: Ending, defect: Defect | None) -> None:
        """Nothing more comes of this game; without a reading this is news."""
        attempt = self._own.attempt
        if attempt and not attempt.done:
            facts = attempt.facts
            if defect and defect not in facts.defects:
                facts = replace(facts, defects=(*facts.defects, defect))
            self._tell(GameEnded(attempt.ref, how, facts))
        self._keep(attempt=None)

    def _tell(self, event: DeviceEvent) -> None:
        # Of a game that was under way when it was first heard, only its end is told.
        if self._own.attempt and (not self._own.attempt.joined or isinstance(event, GameEnded)):
            self._events.append(event)

    def _change(self, **changes: Any) -> None:
        if attempt := self._own.attempt:
            self._own = replace(self._own, attempt=replace(attempt, **changes))

    def _keep(self, **changes: Any) -> None:
        self._own = replace(self._own, **changes)
