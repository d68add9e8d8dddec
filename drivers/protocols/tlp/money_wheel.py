"""Driver `tlp`, talker MW: a money wheel (tlp-1.md 8).

    $MWSTA,seq,state,game,sector,speed,dir,turns_x100,flags        $MWEVT,seq,game,PASS,sector,ms
    $MWRES,seq,game,sector,dir,turns_x100,flags

    sector  7 -- 6 -- 5 | 6 -- 7 -- ... -- 12 | 11
            '-wind-up-'   '--- the turn ---'   '- back-swing

Turns are the longest way in one direction, sector by sector: the back-swing of the clapper does not take from
it, the wind-up before the release does not add to it (rulebook 4, MW-2 and MW-3).
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core.events import Defect, Ending, Flag, GameEnded, TurnsBasis
from dollyd.drivers.protocols.tlp.device import mask_of, whole_of
from dollyd.drivers.protocols.tlp.game import (
    AT_REST,
    DIRECTIONS,
    MOVING,
    PLACE_BETS,
    FlagTable,
    Kind,
    Travel,
)
from dollyd.drivers.protocols.tlp.games import TlpGames
from dollyd.drivers.protocols.tlp.sentence import Sentence
from dollyd.drivers.spec import DeviceSetup

_REVERSED, _ON_PIN, _MARKS, _RUNAWAY, _TOUCHED, _MOTOR = 0x02, 0x04, 0x08, 0x10, 0x20, 0x40

FLAGS = FlagTable(
    flags={
        _ON_PIN: Flag.BETWEEN_SECTORS,
        _RUNAWAY: Flag.RUNAWAY,
        _TOUCHED: Flag.TOUCHED,
        _MOTOR: Flag.DEVICE_FAULT,
    },
    doubts={
        _REVERSED: Defect.ROTOR_REVERSED,
        _MARKS: Defect.SENSORS_DISAGREE,
        _RUNAWAY: Defect.ROTOR_OVER_SPEED,
    },
    fault=_MOTOR,
    moving=_REVERSED | _MARKS | _RUNAWAY | _TOUCHED | _MOTOR,
)
"""Clause 8.4. Flag 01, too few turns, only informs: the rules decide by the count."""


def passed(travel: Travel, sector: int, sectors: int) -> tuple[Travel, bool]:
    """One more sector came under the pointer, and whether it is the neighbour of the one before.

    The first pass from an unknown place only shows where the wheel stands: it has no direction.
    """
    if not travel.sector:
        return replace(travel, sector=sector), True
    step = (sector - travel.sector) % sectors
    neighbour = step in (1, sectors - 1)
    forward = step == 1 if neighbour else travel.forward
    run = travel.run + 1 if forward == travel.forward else 1
    longest = replace(travel, longest=run, longest_forward=forward) if run > travel.longest else travel
    return replace(longest, sector=sector, forward=forward, run=run), neighbour


class MoneyWheelProtocol(TlpGames):
    """The language of a money wheel without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        super().__init__(setup, Kind("MW", "MONEY", (PLACE_BETS, MOVING, AT_REST), 6, FLAGS))
        self._sectors = max(1, len(setup.readings))

    def _on_state(self, sentence: Sentence) -> None:
        """While bets are open the wheel says where it stands."""
        attempt, sector = self._own.attempt, whole_of(sentence.field(2))
        if attempt is None or not sector or attempt.result:
            return
        if attempt.state == PLACE_BETS:
            self._change(travel=Travel(sector=sector))
        elif attempt.state == AT_REST:
            self._stands("STA", sector)
        else:
            self._passes_at(sector)

    def _passes_at(self, sector: int) -> None:
        """Clause 8.1: while it turns, `STA` shows the sector of the last pass or of the one being told."""
        attempt = self._own.attempt
        last = attempt.travel.sector if attempt else 0
        near = (sector - last) % self._sectors in (0, 1, self._sectors - 1)
        agree = not last or near or bool(self._own.missing)
        self._compare("sector_shown", f"STA {sector}", f"PASS {last}", agree=agree)

    def _stands(self, source: str, sector: int) -> None:
        """Clause 8.3: at rest the wheel stands where the last pass has brought it, and nowhere else."""
        attempt = self._own.attempt
        if attempt is None:
            return
        last, shown = attempt.travel.sector, whole_of(attempt.total)
        agree = not last or sector == last or bool(self._own.missing)
        self._compare("sector", f"{source} {sector}", f"PASS {last}", agree=agree)
        self._compare("sector_at_rest", f"{source} {sector}", f"STA {shown}", agree=shown in (None, sector))
        self._change(total=str(sector))

    def _on_event(self, sentence: Sentence) -> None:
        attempt, sector = self._own.attempt, whole_of(sentence.field(2))
        if attempt is None or sentence.field(1) != "PASS":
            self.counters["unknown-event"] += 1
            return
        if sector is None or not 1 <= sector <= self._sectors:
            self._doubt(Defect.NOT_ON_WHEEL)
            return
        travel, neighbour = passed(attempt.travel, sector, self._sectors)
        if not neighbour and not self._own.missing:
            self._doubt(Defect.SENSORS_DISAGREE)
        self._change(travel=travel)
        self._note(turns_basis=TurnsBasis.COUNTED, wheel_turns_x100=travel.longest * 100 // self._sectors)

    def _on_rest(self, fields: tuple[str, ...]) -> None:
        _, sector, direction, turns_x100, mask, *_ = (*fields, *("",) * 5)
        self._count(whole_of(turns_x100))
        if (sector,) in self._setup.readings and not (mask_of(mask) or 0) & _ON_PIN:
            self._stands("RES", int(sector))
        self._turned(DIRECTIONS.get(direction, ""))
        self._note(wheel_direction=DIRECTIONS.get(direction, ""))
        bits = self._confirmed_flags(mask)
        if bits is None:
            return
        attempt = self._own.attempt
        if attempt and bits & _ON_PIN:
            # No sector, and a rule that says what this means: the game has told all.
            self._close_with(GameEnded(attempt.ref, Ending.SHUT_DOWN, attempt.facts))
        elif not sector:
            self._spoil(Defect.UNREAD)
        elif (sector,) not in self._setup.readings:
            self._spoil(Defect.NOT_ON_WHEEL)
        else:
            self._finish((sector,))

    def _turned(self, direction: str) -> None:
        """Clause 8.3: `dir` is the direction of the longest way."""
        attempt = self._own.attempt
        if attempt is None or not direction or attempt.travel.longest_forward is None:
            return
        counted = DIRECTIONS["0" if attempt.travel.longest_forward else "1"]
        agree = direction == counted or bool(self._own.missing)
        self._compare("direction", f"RES {direction}", f"PASS {counted}", agree=agree)

    def _count(self, total_x100: int | None) -> None:
        """The host's count stands; the wheel's total must be within one sector of it (MW-4)."""
        attempt, lost = self._own.attempt, bool(self._own.missing)
        if attempt is None:
            return
        if attempt.facts.wheel_turns_x100 is None:
            if total_x100 is not None:
                self._note(turns_basis=TurnsBasis.REPORTED, wheel_turns_x100=total_x100)
            return
        self._note(turns_lower_bound=lost)
        if total_x100 is None:
            return
        # In hundredths of a sector; the wheel's total itself may be rounded by a hundredth of a turn.
        ahead = total_x100 * self._sectors - attempt.travel.longest * 100
        within = 100 + self._sectors
        agree = ahead >= -within and (lost or ahead <= within)
        counted, doubt = attempt.facts.wheel_turns_x100, Defect.COUNTS_DIFFER
        self._compare("turns_x100", f"RES {total_x100}", f"counted {counted}", agree=agree, doubt=doubt)
