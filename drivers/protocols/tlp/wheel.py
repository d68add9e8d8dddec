"""Driver `tlp`, talker WH: a roulette wheel or a boule bowl (tlp-1.md 6).

    $WHSTA,seq,state,game,,rpm_x10,dir,laps,flags            $WHEVT,seq,game,LAP|REV,n,ms
    $WHRES,seq,game,number,rpm_x10,dir,laps,flags[,pocket]

Laps of the ball and turns of the rotor are counted here, event by event; the total in `RES` is the second
witness. A wheel that sends no events has reported turns only.
"""

from __future__ import annotations

from dollyd.daemon.core.events import Defect, Flag, TurnsBasis
from dollyd.drivers.protocols.tlp.device import whole_of
from dollyd.drivers.protocols.tlp.game import (
    AT_REST,
    DIRECTIONS,
    MOVING,
    NO_MORE_BETS,
    PLACE_BETS,
    FlagTable,
    Kind,
)
from dollyd.drivers.protocols.tlp.laps import LapGames, one_more
from dollyd.drivers.protocols.tlp.sentence import Sentence
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


class WheelProtocol(LapGames):
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
        if attempt is not None and attempt.state in (MOVING, NO_MORE_BETS):
            self._laps_shown(sentence.field(5))
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
        before, doubt = attempt.direction, Defect.ROTOR_REVERSED
        self._compare("rotor", before, direction, agree=before in ("", direction), doubt=doubt)
        self._change(direction=direction)

    def _on_event(self, sentence: Sentence) -> None:
        attempt = self._own.attempt
        if attempt is None:
            return
        facts = attempt.facts
        what = sentence.field(1)
        match what:
            case "LAP":
                self._note(turns_basis=TurnsBasis.COUNTED, ball_turns_x100=one_more(facts.ball_turns_x100))
            case "REV":
                self._note(turns_basis=TurnsBasis.COUNTED, wheel_turns_x100=one_more(facts.wheel_turns_x100))
            case _:
                self.counters["unknown-event"] += 1
                return
        self._tally(what, sentence.field(2))

    def _on_rest(self, fields: tuple[str, ...]) -> None:
        _, number, _, direction, laps, mask, pocket, *_ = (*fields, *("",) * 6)
        self._laps_at_rest(laps)
        self._rotor(DIRECTIONS.get(direction, ""))
        if (attempt := self._own.attempt) and pocket:
            self._note(details=(*attempt.facts.details, ("pocket", pocket)))
        self._pockets_agree(number, pocket)
        bits = self._confirmed_flags(mask)
        if bits is None:
            return
        self._directions(direction, with_rotor=bool(bits & _WITH_ROTOR))
        self._read(number, pocket)

    def _directions(self, text: str, *, with_rotor: bool) -> None:
        """Clause 6.3: `dir` is the rotor's; the ball runs opposite unless flag 02 says otherwise."""
        attempt = self._own.attempt
        if attempt is None or text not in DIRECTIONS:
            return
        same = with_rotor or Flag.BALL_WITH_ROTOR in attempt.facts.flags
        ball = text if same else ("1" if text == "0" else "0")
        self._note(wheel_direction=DIRECTIONS[text], ball_direction=DIRECTIONS[ball])

    def _pockets_agree(self, number: str, pocket: str) -> None:
        """Clause 6.3: index and number are two readings of one pocket; the layout begins at the mark."""
        readings, index = self._setup.readings, whole_of(pocket)
        if not pocket or not self._on_wheel((number, pocket) if self._boule else (number,)):
            return
        there = readings[index][0] if index is not None and index < len(readings) else "none"
        self._compare("pocket", f"number {number}", f"pocket {pocket} has {there}", agree=there == number)

    def _read(self, number: str, pocket: str) -> None:
        value = (number, pocket) if self._boule else (number,)
        if "" in value:
            self._spoil(Defect.UNREAD)
        elif not self._on_wheel(value):
            self._spoil(Defect.NOT_ON_WHEEL)
        else:
            self._finish(value)

    def _on_wheel(self, value: tuple[str, ...]) -> bool:
        """Whether there is such a number, and such a cup, each by itself."""
        return all(text in known for text, known in zip(value, self._known, strict=True))

    @property
    def _known(self) -> tuple[frozenset[str], ...]:
        """Every number, and for boule every cup, that there is."""
        return tuple(frozenset(texts) for texts in zip(*self._setup.readings, strict=True))
