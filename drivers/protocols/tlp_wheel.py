"""Driver `tlp`, talker WH: a roulette wheel or a boule bowl (tlp-1.md 6).

    $WHSTA,seq,state,game,,rpm_x10,dir,laps,flags            $WHEVT,seq,game,LAP|REV,n,ms
    $WHRES,seq,game,number,rpm_x10,dir,laps,flags[,pocket]

Laps of the ball and turns of the rotor are counted here, event by event; the total in `RES` is the second
witness. A wheel that sends no events has reported turns only.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core.events import Defect, DrawFacts, Flag, TurnsBasis
from dollyd.drivers.protocols.tlp_device import whole_of
from dollyd.drivers.protocols.tlp_game import (
    AT_REST,
    DIRECTIONS,
    MOVING,
    NO_MORE_BETS,
    PLACE_BETS,
    FlagTable,
    Kind,
)
from dollyd.drivers.protocols.tlp_games import TlpGames
from dollyd.drivers.protocols.tlp_sentence import Sentence
from dollyd.drivers.spec import DeviceSetup

_WITH_ROTOR = 0x02
_LAUNCH_FAILED = 0x08

FLAGS = FlagTable(
    flags={
        0x01: Flag.BALL_NOT_DETECTED,
        _WITH_ROTOR: Flag.BALL_WITH_ROTOR,
        0x04: Flag.DEVICE_FAULT,
        _LAUNCH_FAILED: Flag.LAUNCH_FAILED,
        0x40: Flag.SECOND_BALL,
        0x100: Flag.BALL_OUT,
    },
    doubts={
        0x10: Defect.ROTOR_STOPPED,
        0x20: Defect.ROTOR_OVER_SPEED,
        0x80: Defect.SENSORS_DISAGREE,
    },
    fault=0x04,
    moving=0xFFFF,
)
"""Clause 6.4; ball detectors have the same."""


def one_more(turns_x100: int | None) -> int:
    """A whole turn on top of those counted so far."""
    return (turns_x100 or 0) + 100


def counts_agree(facts: DrawFacts, total: int | None, *, lost: bool) -> bool:
    """Whether the device's total is the host's count of laps; where events were lost it may be more."""
    counted = facts.ball_turns_x100
    if counted is None or total is None:
        return True
    return counted == 100 * total or (lost and counted < 100 * total)


def with_total(facts: DrawFacts, total: int | None, *, lost: bool) -> DrawFacts:
    """The host's count stands; the device's total stands in where there is none. Weaker of two bases."""
    counted = facts.ball_turns_x100 is not None or facts.wheel_turns_x100 is not None
    if facts.ball_turns_x100 is None and total is not None:
        facts = replace(facts, turns_basis=TurnsBasis.REPORTED, ball_turns_x100=100 * total)
    return replace(facts, turns_lower_bound=counted and lost)


class WheelProtocol(TlpGames):
    """The language of a wheel without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        self._boule = setup.game == "boule"
        path = (PLACE_BETS, MOVING, NO_MORE_BETS, AT_REST)
        super().__init__(setup, Kind("WH", "BOULE" if self._boule else "WHEEL", path, 6, FLAGS))

    def _on_flags(self, bits: int) -> None:
        """A launch that failed while bets are open is tried again, under the same game."""
        attempt, failing = self._own.attempt, bool(bits & _LAUNCH_FAILED)
        if attempt is None or attempt.state != PLACE_BETS or failing == attempt.failing:
            return
        self._change(failing=failing)
        if failing:
            self._learn(relaunches=attempt.facts.relaunches + 1)

    def _on_state(self, sentence: Sentence) -> None:
        attempt = self._own.attempt
        if attempt is None or attempt.state != NO_MORE_BETS:
            return
        if whole_of(sentence.field(3)) == 0 and not self._boule:  # a boule bowl need not turn
            self._doubt(Defect.ROTOR_STOPPED)
        self._rotor(DIRECTIONS.get(sentence.field(4), ""))

    def _rotor(self, direction: str) -> None:
        """After no more bets the rotor keeps its direction."""
        attempt = self._own.attempt
        if attempt is None or not direction:
            return
        if attempt.direction not in ("", direction):
            self._doubt(Defect.ROTOR_REVERSED)
        self._change(direction=direction)

    def _on_event(self, sentence: Sentence) -> None:
        attempt = self._own.attempt
        if attempt is None:
            return
        facts = attempt.facts
        match sentence.field(1):
            case "LAP":
                self._note(turns_basis=TurnsBasis.COUNTED, ball_turns_x100=one_more(facts.ball_turns_x100))
            case "REV":
                self._note(turns_basis=TurnsBasis.COUNTED, wheel_turns_x100=one_more(facts.wheel_turns_x100))
            case _:
                self.counters["unknown-event"] += 1

    def _on_rest(self, fields: tuple[str, ...]) -> None:
        _, number, _, direction, laps, mask, pocket, *_ = (*fields, *("",) * 6)
        attempt = self._own.attempt
        if attempt is None:
            return
        total, lost = whole_of(laps), bool(self._own.missing)
        agree = counts_agree(attempt.facts, total, lost=lost)
        facts = with_total(attempt.facts, total, lost=lost)
        self._rotor(DIRECTIONS.get(direction, ""))
        self._change(facts=replace(facts, details=(("pocket", pocket),) if pocket else ()))
        bits = self._confirmed_flags(mask)
        if bits is None:
            return
        self._directions(direction, with_rotor=bool(bits & _WITH_ROTOR))
        if not agree:
            self._spoil(Defect.COUNTS_DIFFER)
        self._read(number, pocket)

    def _directions(self, text: str, *, with_rotor: bool) -> None:
        """Clause 6.3: `dir` is the rotor's; the ball runs opposite unless flag 02 says otherwise."""
        attempt = self._own.attempt
        if attempt is None or text not in DIRECTIONS:
            return
        same = with_rotor or Flag.BALL_WITH_ROTOR in attempt.facts.flags
        ball = text if same else ("1" if text == "0" else "0")
        self._note(wheel_direction=DIRECTIONS[text], ball_direction=DIRECTIONS[ball])

    def _read(self, number: str, pocket: str) -> None:
        value = (number, pocket) if self._boule else (number,)
        if "" in value:
            self._spoil(Defect.UNREAD)
        elif any(text not in known for text, known in zip(value, self._known, strict=True)):
            self._spoil(Defect.NOT_ON_WHEEL)
        elif value not in self._setup.readings:
            self._spoil(Defect.SENSORS_DISAGREE)
        else:
            self._finish(value)

    @property
    def _known(self) -> tuple[frozenset[str], ...]:
        """Every number, and for boule every cup, that there is."""
        return tuple(frozenset(texts) for texts in zip(*self._setup.readings, strict=True))
