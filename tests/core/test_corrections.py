"""A correction is decided in two steps, and play goes on between them: no fact of the first is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import PROVEN, Play, game, game_setup, make_setup

from dollyd.daemon.core import decision
from dollyd.daemon.core.effects import Emit
from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    CorrectionProposed,
    DrawStarted,
    Original,
    Permitted,
    Reading,
    ResultProposed,
    Seated,
    ShooterDeclined,
    VoidDeclared,
)
from dollyd.daemon.core.games.spec import Drawn, Memory
from dollyd.daemon.core.state import Setup
from dollyd.wire.record import CorrectionBody, Finding, Kind

WITH_MEMORY: dict[str, tuple[Setup, list[str]]] = {
    "craps": (game_setup("craps"), ["2-2", "3-3", "3-4", "1-1", "4-5"]),
    "roulette D": (make_setup("D"), ["0", "17", "32"]),
    "tuplanoppa": (game_setup("tuplanoppa"), ["3-4", "1-1", "6-6"]),
}
"""Every game in which one round hangs on the one before, with readings that matter."""


@dataclass
class Told:
    """One thing that happened, as a replay of the night would be told it."""

    what: str
    value: str = ""
    """Reading of a round as it counts; empty: void."""
    seats: tuple[str, ...] = ()
    put_right: bool = False


class Evening:
    """A table, and the journal of what it published."""

    def __init__(self, name: str) -> None:
        self.setup, _ = WITH_MEMORY[name]
        self.play = Play(self.setup).open()
        self.told: list[Told] = []
        self.finals: dict[int, Finding] = {}
        self.published: list[int] = []
        self.begun = False
        self.proposed = ""

    # --- play --------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        return self.play.table.number

    def begin(self) -> None:
        if not self.begun:
            self.play.bets_open(self.number + 1)
            self.begun = True

    def end(self, value: str) -> None:
        """The round to its end, from its beginning if none is in progress; void where the value is empty."""
        self.begin()
        play, number = self.play, self.number
        one = game(number, play.device)
        if self.setup.game.throws:
            play.tell(BetsClosed("d1"), Permitted("d1"))
        else:
            play.tell(DrawStarted(one), BetsClosed(play.device, one))
        if not value:
            play.tell(VoidDeclared("d1", "dealer", "a coin"))
        elif self.setup.game.throws:
            play.thrown(value, number)
        else:
            play.tell(Reading(one, (value,), PROVEN))
        self.begun = False
        assert play.table.round is None
        self.told.append(Told("round", value))
        self.finals[number] = self._finding()
        self.published.append(number)

    def _finding(self) -> Finding:
        body: Any = next(e.body for e in reversed(self.play.emitted) if e.kind in {Kind.RESULT, Kind.VOID})
        if hasattr(body, "outcome"):
            return Finding(kind="result", outcome=body.outcome)
        return Finding(kind="void", rule=body.rule, stake_policy=body.stake_policy)

    def seat(self, *seats: str) -> None:
        self.play.tell(Seated("d1", seats))
        self.told.append(Told("seats", seats=seats))

    def decline(self) -> None:
        before = self.play.table
        self.play.tell(ShooterDeclined("d1"))
        if self.play.table != before:
            self.told.append(Told("declined"))

    # --- what people do ----------------------------------------------------------------------------

    def original(self, number: int, lag: int = 0) -> Original | None:
        """What the journal says while its newest `lag` rounds are not yet in it."""
        known = self.published[: len(self.published) - lag]
        if number not in known:
            return None
        outcomes = {n: self.finals[n].outcome for n in known if self.finals[n].kind == "result"}
        before: Any = next((outcomes[n] for n in reversed(known) if n < number and n in outcomes), None)
        return Original(
            seq=number,
            finding=self.finals[number],
            setting=decision.setting(self.setup),
            gaming_date="2026-11-29",
            stakes=self.setup.stakes,
            outcome_before=before,
            newest=all(n <= number for n in outcomes),
            upto=known[-1],
        )

    def propose(self, number: int, value: str, lag: int = 0) -> tuple[str, ...]:
        original = self.original(number, lag)
        if original is None:
            return ()
        self.proposed = f"{number} {value} {len(self.play.effects)}"
        told = tuple(value.split("-")) if value else ()
        event = CorrectionProposed("i1", "inspector", "{}", self.proposed, number, told, "video", original)
        return names(self.play.tell(event))

    def approve(self, lag: int = 0) -> tuple[str, ...]:
        proposal = self.play.table.proposal
        original = self.original(proposal.round, lag) if proposal else None
        said = Approved("p1", "pit-boss", "{}", self.proposed, original)
        effects = self.play.tell(said)
        for effect in effects:
            if isinstance(effect, Emit) and isinstance(effect.body, CorrectionBody):
                assert proposal is not None
                self.finals[effect.round] = effect.body.after
                rounds = [one for one in self.told if one.what == "round"]
                rounds[effect.round - 1].value = "-".join(proposal.value)
                rounds[effect.round - 1].put_right = True
        return names(effects)

    # --- the night once more -------------------------------------------------------------------------

    def replayed(self) -> Memory:
        """What the game remembers when the night as it counts is played from its beginning."""
        game, memory, number = self.setup.game, Memory(), 0
        for one in self.told:
            if one.what == "seats":
                memory = game.seated(memory, one.seats)
            elif one.what == "declined":
                memory = game.declined(memory)
            else:
                number += 1
                if one.value:
                    value = tuple(one.value.split("-"))
                    drawn = Drawn(value, self.setup.variant, self.setup.layout, memory, self.setup.quarters)
                    outcome = game.outcome(drawn)
                    assert self.finals[number].outcome == outcome
                    memory = game.after(outcome)
                elif one.put_right:  # who had declined in a round that was published is asked anew
                    memory = tuple(entry for entry in memory if entry[0] != "declined")
        return memory


def names(effects: Any) -> tuple[str, ...]:
    """Kinds of records; an incident by its name."""
    return tuple(getattr(e.body, "what", str(e.kind)) for e in effects if isinstance(e, Emit))


# --- what was tried ------------------------------------------------------------------------------


def test_attack_2_a_stale_correction_of_craps_is_dropped_by_the_next_roll() -> None:
    evening = Evening("craps")
    evening.end("2-2")
    assert evening.propose(1, "3-3") == ("correction-proposed",)
    evening.end("3-4")  # seven-out
    assert evening.play.whats()[-1] == "proposal-dropped"
    assert evening.play.table.proposal is None
    assert evening.approve() == ("approval-refused",)
    assert evening.play.table.memory == ()
    evening.end("3-4")
    assert evening.finals[3].outcome == {"die_1": 3, "die_2": 4, "sum": 7, "pair": False, "phase": "come-out"}


def test_attack_2_a_stale_correction_on_which_nothing_hangs_waits_on_and_is_read_anew() -> None:
    evening = Evening("craps")
    evening.end("2-2")
    assert evening.propose(1, "1-3") == ("correction-proposed",)
    evening.end("1-1")
    assert evening.play.table.proposal is not None
    assert evening.approve() == ("correction",)
    assert evening.play.table.memory == evening.replayed() == (("point", "4"),)


def test_attack_2_a_stale_correction_is_not_made_by_a_journal_that_lags_behind() -> None:
    evening = Evening("roulette D")
    evening.end("17")
    evening.end("")
    assert evening.propose(1, "0", lag=1) == ("correction-refused",)
    assert evening.propose(1, "0") == ("correction-proposed",)
    evening.end("")
    assert evening.approve(lag=1) == ("approval-refused",)
    assert evening.approve() == ("correction",)
    assert evening.play.table.memory == evening.replayed() == (("zeros", "1"),)


def test_attack_2_a_stale_correction_without_a_look_into_the_journal_is_refused() -> None:
    evening = Evening("craps")
    evening.end("2-2")
    evening.propose(1, "3-3")
    effects = evening.play.tell(Approved("p1", "pit-boss", "{}", evening.proposed))
    assert names(effects) == ("approval-refused",)


def test_attack_2_a_round_that_ended_has_no_result_to_approve() -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    play.tell(ResultProposed("d1", "dealer", "{}", "ab", 1, ("17",), "the sensor is dead"))
    effects = play.tell(VoidDeclared("d1", "dealer", "a coin"))
    assert names(effects) == ("void", "proposal-dropped")
    assert play.table.proposal is None


def test_a_corrected_throw_keeps_who_threw_it() -> None:
    evening = Evening("tuplanoppa")
    evening.seat("1", "3", "4")
    evening.end("3-4")
    assert dict(evening.play.table.memory)["shooter"] == "3"
    evening.propose(1, "1-1")
    assert evening.approve() == ("correction",)
    outcome: Any = evening.finals[1].outcome
    assert (outcome["seats"], outcome["shooter"]) == (["1", "3", "4"], "1")
    assert dict(evening.play.table.memory)["shooter"] == "1"


def test_what_the_dealer_told_since_then_is_not_overwritten() -> None:
    evening = Evening("tuplanoppa")
    evening.seat("1", "3", "4")
    evening.end("3-4")
    evening.propose(1, "1-1")
    evening.decline()
    assert evening.approve() == ("approval-refused",)
    assert dict(evening.play.table.memory)["shooter"] == "4"


BACK = st.sampled_from([0, 0, 0, 1, 1, 2])
"""Rounds before the newest one that has ended."""
LAGS = st.sampled_from([0, 0, 0, 1, 2])


@pytest.mark.parametrize("name", WITH_MEMORY)
@settings(deadline=None)
@given(data=st.data())
def test_attack_2_a_stale_correction_never_leaves_another_memory_than_the_corrected_night(
    name: str, data: st.DataObject
) -> None:
    """Whatever order of rounds, proposals and approvals, and however late the journal: refused, or right."""
    evening = Evening(name)
    values = st.sampled_from(["", *WITH_MEMORY[name][1]])
    moves = ["end", "end", "propose", "propose", "approve", "approve", "begin"]
    moves += ["seat", "decline"] if name == "tuplanoppa" else []
    for move in ["end", *data.draw(st.lists(st.sampled_from(moves), min_size=6, max_size=14))]:
        match move:
            case "end":
                evening.end(data.draw(values))
            case "begin":
                evening.begin()
            case "seat":
                evening.seat(*data.draw(st.sampled_from([("1", "3"), ("3", "1", "4"), ("5",), ()])))
            case "decline":
                evening.decline()
            case "propose":
                number = len(evening.published) - data.draw(BACK)
                evening.propose(number, data.draw(values), data.draw(LAGS))
            case "approve":
                evening.approve(data.draw(LAGS))
        assert evening.play.table.memory == evening.replayed()
