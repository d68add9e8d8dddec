"""Who may do what: every role, every order, every phase, every game; and the decisions of two persons."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.support.tables import (
    IN_PHASE,
    PROVEN,
    TEXTS,
    WHEEL,
    Play,
    but_for_counts,
    game,
    game_setup,
    make_setup,
)

from dollyd.daemon.core import decision
from dollyd.daemon.core.authority import ENTITLED, SUPERVISORS, Role, entitled, two_persons
from dollyd.daemon.core.effects import Emit
from dollyd.daemon.core.events import (
    HOUSE_EVENTS,
    Approved,
    BetsClosed,
    Confirmed,
    CorrectionProposed,
    DeviceTrouble,
    GameStarted,
    HouseEvent,
    Inspected,
    NoneImprisoned,
    Original,
    Permitted,
    Reading,
    Restarted,
    ResultProposed,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.daemon.core.round import ACCEPTS, ORDERS, Phase
from dollyd.wire.record import CorrectionBody, Finding, IncidentBody, Kind, Odds, ResultBody, VoidBody

ROLES = ("dealer", "inspector", "pit-boss", "technician", "house", "", "guest")
GAMES = tuple(TEXTS)

WHO: dict[str, str] = {
    "TableOpened": "dealer inspector pit-boss house",
    "TableClosed": "dealer inspector pit-boss",
    "BetsClosed": "dealer inspector pit-boss",
    "Confirmed": "dealer inspector",
    "Permitted": "dealer",
    "Seated": "dealer inspector pit-boss",
    "ShooterDeclined": "dealer inspector pit-boss",
    "Inspected": "dealer inspector pit-boss technician",
    "NoneImprisoned": "inspector pit-boss",
    "ResultProposed": "dealer inspector pit-boss",
    "CorrectionProposed": "dealer inspector pit-boss",
    "Approved": "dealer inspector pit-boss",
}
"""Who may, in every game as shipped."""
DECLARERS: dict[str, str] = {
    "roulette": "dealer",
    "boule": "dealer inspector",
    "money-wheel": "dealer inspector",
    "tuplanoppa": "dealer",
    "sic-bo": "dealer",
    "craps": "dealer",
}
"""Who declares a void or rejects a throw, as the regulations of the shipped profiles say."""


def order(kind: type, role: str, setup: Any) -> HouseEvent:
    original = Original(1, Finding(kind="void", rule="declared"), decision.setting(setup), "2026-11-29")
    orders: dict[type, HouseEvent] = {
        TableOpened: TableOpened("p", role),
        TableClosed: TableClosed("p", role),
        BetsClosed: BetsClosed("p", role=role),
        VoidDeclared: VoidDeclared("p", role, "a coin"),
        Confirmed: Confirmed("p", role=role),
        Permitted: Permitted("p", role=role),
        ThrowRejected: ThrowRejected("p", role, "on the rail"),
        Seated: Seated("p", ("1", "3"), role),
        ShooterDeclined: ShooterDeclined("p", role),
        Inspected: Inspected("p", role),
        NoneImprisoned: NoneImprisoned("p", role),
        ResultProposed: ResultProposed("p", role, "{}", "ab", 1, setup.game.values(setup.layout)[0], "dead"),
        CorrectionProposed: CorrectionProposed("p", role, "{}", "cd", 1, (), "video", original),
        Approved: Approved("p", role, "{}", "ab"),
    }
    return orders[kind]


def whats(effects: Any) -> list[str]:
    """Kinds of records; an incident by its name."""
    return [
        effect.body.what if isinstance(effect.body, IncidentBody) else str(effect.kind)
        for effect in effects
        if isinstance(effect, Emit)
    ]


def texts(effects: Any) -> str:
    return " ".join(
        effect.body.text
        for effect in effects
        if isinstance(effect, Emit) and isinstance(effect.body, IncidentBody)
    )


def test_every_order_has_its_line() -> None:
    assert set(ENTITLED) == set(ORDERS) == set(HOUSE_EVENTS)
    assert {kind.__name__ for kind in HOUSE_EVENTS} == {*WHO, "VoidDeclared", "ThrowRejected"}
    assert set(GAMES) == set(DECLARERS)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("kind", HOUSE_EVENTS, ids=lambda kind: kind.__name__)
def test_roles_by_order_and_game(kind: type, name: str) -> None:
    rules = game_setup(name).rules
    expected = WHO.get(kind.__name__, DECLARERS[name]).split()
    assert [role for role in ROLES if entitled(kind, role, rules)] == [r for r in ROLES if r in expected]


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("kind", HOUSE_EVENTS, ids=lambda kind: kind.__name__)
def test_role_by_order_by_phase_by_game(kind: type, name: str) -> None:
    """Who is not entitled changes nothing in any phase, and is told; who is, may where the phase lets it."""
    setup = game_setup(name, confirm="dealer")
    for role, phase in product(ROLES, Phase):
        play = IN_PHASE[phase](Play(setup))
        if play.phase is not phase:
            continue  # a game in which the tests' ordinary steps do not lead there
        before = play.table
        effects = play.tell(order(kind, role, setup))
        where = f"{role or 'nobody'} in {phase}"
        if not entitled(kind, role, setup.rules):
            assert but_for_counts(play.table) == but_for_counts(before), where
            assert whats(effects) == [f"{ORDERS[kind]}-refused"], where
            assert "may not do this" in texts(effects), where
        elif kind not in ACCEPTS[phase] and kind not in (BetsClosed, Seated):
            assert but_for_counts(play.table) == but_for_counts(before), where
            assert whats(effects) == [f"{ORDERS[kind]}-refused"], where
            assert f"not possible in phase {phase}" in texts(effects), where
        else:
            assert "may not do this" not in texts(effects), where


# --- voids ---------------------------------------------------------------------------------------


def test_t28_a_void_declared_while_the_ball_spins_counts_and_loses_nobody_a_stake() -> None:
    play = Play(make_setup("A", confirm="dealer")).no_more_bets()
    play.tell(VoidDeclared("d1", "dealer", "too few turns"))
    void: Any = play.bodies(Kind.VOID)[-1]
    assert (void.rule, void.declared_by, void.role) == ("declared", "d1", "dealer")
    assert void.stake_policy == "player_choice"
    assert play.phase is Phase.WAITING


def test_t29_a_void_after_the_confirmation_is_refused_and_told() -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    play.tell(Confirmed("d1"))
    assert Kind.RESULT in play.kinds
    effects = play.tell(VoidDeclared("d1", "dealer", "I saw the number"))
    assert whats(effects) == ["void-refused"]
    assert Kind.VOID not in play.kinds


def test_t30_an_inspector_alone_is_refused_at_roulette_and_accepted_at_boule() -> None:
    roulette = Play(game_setup("roulette", confirm="dealer")).no_more_bets()
    assert whats(roulette.tell(VoidDeclared("i1", "inspector", "too few turns"))) == ["void-refused"]
    boule = Play(game_setup("boule", confirm="dealer")).no_more_bets()
    assert whats(boule.tell(VoidDeclared("i1", "inspector", "too few turns"))) == ["void"]


def test_t30_the_dealer_declares_what_the_inspector_judged_and_both_are_recorded() -> None:
    play = Play(game_setup("roulette", confirm="dealer")).no_more_bets()
    play.tell(VoidDeclared("d1", "dealer", "too few turns", 0, "i1", "inspector"))
    void = play.bodies(Kind.VOID)[-1]
    assert isinstance(void, VoidBody)
    assert (void.declared_by, void.role, void.judged_by, void.judged_role) == (
        "d1",
        "dealer",
        "i1",
        "inspector",
    )


def test_a_technician_is_no_judge() -> None:
    play = Play(game_setup("roulette", confirm="dealer")).no_more_bets()
    effects = play.tell(VoidDeclared("d1", "dealer", "too few turns", 0, "t1", "technician"))
    assert whats(effects) == ["void-refused"]


# --- two persons ---------------------------------------------------------------------------------

ENTERED = ResultProposed("d1", "dealer", "{first}", "ab", 1, ("15",), "the sensor is wrong")
YES = Approved("p1", "pit-boss", "{second}", "ab")


def test_t58_the_sensor_says_32_the_dealer_15_two_persons_decide_and_both_readings_stay() -> None:
    play = Play(make_setup("A", confirm="dealer")).no_more_bets()
    play.tell(Reading(game(), ("32",), PROVEN))
    assert whats(play.tell(ENTERED)) == ["manual-result-proposed", "unresolved"]
    assert (play.phase, play.table.mode) == (Phase.BLOCKED, "manual")
    assert whats(play.tell(YES)) == ["result"]
    result = play.bodies(Kind.RESULT)[-1]
    assert isinstance(result, ResultBody)
    assert (result.outcome["pocket"], result.mode, result.reason) == ("15", "manual", "the sensor is wrong")
    assert [witness.value for witness in result.evidence.witnesses] == [["32"]]
    assert isinstance(result.approvals, list)
    assert [(a.operator, a.role, a.command) for a in result.approvals] == [
        ("d1", "dealer", "{first}"),
        ("p1", "pit-boss", "{second}"),
    ]
    assert play.table.mode == "manual"


def test_after_a_power_cut_with_the_ball_in_the_track_two_persons_close_the_round() -> None:
    play = Play(make_setup("A")).no_more_bets()
    play.tell(Restarted("2026-11-29T18:41:20Z"))
    assert play.phase is Phase.BLOCKED
    assert Kind.RESULT not in play.kinds
    play.tell(ENTERED, YES)
    finals = [effect for effect in play.emitted if effect.kind in (Kind.RESULT, Kind.VOID)]
    assert [(final.kind, final.round) for final in finals] == [(Kind.RESULT, 1)]


def test_with_a_dead_sensor_the_round_is_entered_by_hand_and_the_next_one_is_automatic_again() -> None:
    play = Play(make_setup("A")).no_more_bets()
    play.tell(DeviceTrouble(WHEEL, "lost", "unplugged"), ENTERED, YES)
    assert play.table.mode == "manual"
    play.whole_round("17", 2)
    assert play.table.mode == "auto"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (Approved("d1", "inspector", "{}", "ab"), "the same person twice"),
        (Approved("d2", "dealer", "{}", "ab"), "must be an inspector or a pit boss"),
        (Approved("t1", "technician", "{}", "ab"), "may not do this"),
        (Approved("p1", "pit-boss", "{}", "cd"), "no such proposal"),
    ],
)
def test_the_second_person_must_be_another_one_entitled_and_mean_this_proposal(
    second: Approved, why: str
) -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    play.tell(ENTERED)
    effects = play.tell(second)
    assert whats(effects) == ["approval-refused"]
    assert why in texts(effects)
    assert Kind.RESULT not in play.kinds


def test_a_proposal_waits_for_as_long_as_the_profile_says() -> None:
    for waited_ms, expected in ((300_000, ["result"]), (300_001, ["approval-refused"])):
        play = Play(make_setup("A", confirm="dealer")).at_rest()
        play.tell(ENTERED)
        assert whats(play.tell(YES, after_ms=waited_ms)) == expected


def test_an_approval_counts_once() -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    play.tell(ENTERED, YES)
    assert whats(play.tell(YES)) == ["approval-refused"]
    assert play.kinds.count(Kind.RESULT) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"round": 2}, "round 2 is not in progress"),
        ({"value": ("37",)}, "37 is not on this roulette"),
        ({"value": ()}, "is not on this roulette"),
    ],
)
def test_a_result_that_cannot_be_is_not_proposed(change: dict[str, Any], why: str) -> None:
    play = Play(make_setup("A", confirm="dealer")).at_rest()
    before = play.table
    effects = play.tell(replace(ENTERED, **change))
    assert whats(effects) == ["manual-result-refused"]
    assert why in texts(effects)
    assert but_for_counts(play.table) == but_for_counts(before)


def test_variant_b_without_its_odds_table_is_void_or_nothing() -> None:
    play = Play(make_setup("B", confirm="dealer")).no_more_bets()
    play.tell(DeviceTrouble(WHEEL, "lost", "unplugged"))
    assert "only be void" in texts(play.tell(ENTERED))
    assert whats(play.tell(VoidDeclared("d1", "dealer", "no table was drawn"))) == ["void"]


@pytest.mark.parametrize(
    ("persons", "good"),
    [
        (("a", "dealer", "b", "dealer"), False),
        (("a", "dealer", "b", "inspector"), True),
        (("a", "pit-boss", "b", "dealer"), True),
        (("a", "inspector", "a", "dealer"), False),
    ],
)
def test_two_persons(persons: tuple[str, str, str, str], good: bool) -> None:
    assert (two_persons(*persons) == "") is good
    assert {Role.INSPECTOR, Role.PIT_BOSS} == SUPERVISORS


# --- corrections ---------------------------------------------------------------------------------


def original(setup: Any, **changes: Any) -> Original:
    outcome: Any = {"pocket": "32"}
    fields: dict[str, Any] = {
        "seq": 5,
        "finding": Finding(kind="result", outcome=outcome),
        "setting": decision.setting(setup),
        "gaming_date": "2026-11-29",
        "stakes": setup.stakes,
        "newest": True,
        "upto": 1,
    }
    return Original(**fields | changes)


def correct(setup: Any, *value: str, round_number: int = 1, **changes: Any) -> CorrectionProposed:
    what = original(setup, **changes)
    return CorrectionProposed("i1", "inspector", "{first}", "ab", round_number, value, "the video", what)


def agreed(proposed: CorrectionProposed) -> tuple[CorrectionProposed, Approved]:
    """The proposal, and its approval by a second person, for which the journal is read once more."""
    return proposed, replace(YES, original=proposed.original)


def test_t59_published_32_video_shows_15_the_physical_outcome_wins_and_the_original_stays() -> None:
    setup = make_setup("A")
    play = Play(setup).whole_round("32")
    before = [effect for effect in play.emitted if effect.kind is Kind.RESULT]
    proposed, approval = agreed(correct(setup, "15"))
    assert whats(play.tell(proposed)) == ["correction-proposed"]
    assert whats(play.tell(approval)) == ["correction"]
    body = play.bodies(Kind.CORRECTION)[-1]
    assert isinstance(body, CorrectionBody)
    assert (body.id, body.corrects, body.element, body.reason) == ("ab", 5, "outcome", "the video")
    assert isinstance(body.before.outcome, dict)
    assert isinstance(body.after.outcome, dict)
    assert (body.before.outcome["pocket"], body.after.outcome["pocket"]) == ("32", "15")
    assert [approval.operator for approval in body.approvals] == ["i1", "p1"]
    assert [effect for effect in play.emitted if effect.kind is Kind.RESULT] == before


def test_a_correction_is_possible_while_the_next_round_is_played_and_after_closing() -> None:
    setup = make_setup("A")
    play = Play(setup).whole_round("32")
    play.tell(GameStarted(game(2)), *agreed(correct(setup, "15")))
    assert play.kinds.count(Kind.CORRECTION) == 1
    assert play.phase is Phase.BETS_OPEN
    closed = Play(setup).whole_round("32")
    closed.tell(TableClosed("d1"), *agreed(correct(setup, "15")))
    assert closed.kinds.count(Kind.CORRECTION) == 1


def test_a_result_becomes_a_void_and_a_void_a_result() -> None:
    setup = make_setup("A")
    play = Play(setup).whole_round("32")
    play.tell(*agreed(correct(setup)))
    body: Any = play.bodies(Kind.CORRECTION)[-1]
    assert (body.element, body.after.kind, body.after.stake_policy) == ("verdict", "void", "player_choice")
    void = Finding(kind="void", rule="corrected", stake_policy="player_choice")
    play.tell(*agreed(correct(setup, "15", finding=void)))
    again: Any = play.bodies(Kind.CORRECTION)[-1]
    assert (again.element, again.before.kind, again.after.kind) == ("verdict", "void", "result")


@pytest.mark.parametrize(
    ("value", "changes", "why"),
    [
        (("15",), {"round_number": 2}, "round 2 has no final record"),
        (("15",), {"round_number": 0}, "round 0 has no final record"),
        (("37",), {}, "37 is not on this roulette"),
        ((), {"finding": Finding(kind="void", rule="declared")}, "void already"),
    ],
)
def test_a_correction_that_cannot_be_is_not_proposed(
    value: tuple[str, ...], changes: dict[str, Any], why: str
) -> None:
    setup = make_setup("A")
    play = Play(setup).whole_round("32")
    effects = play.tell(correct(setup, *value, **changes))
    assert whats(effects) == ["correction-refused"]
    assert why in texts(effects)


def test_what_was_published_needs_no_correction() -> None:
    setup = make_setup("A")
    play = Play(setup).whole_round("32")
    result = play.bodies(Kind.RESULT)[-1]
    assert isinstance(result, ResultBody)
    effects = play.tell(correct(setup, "32", finding=Finding(kind="result", outcome=result.outcome)))
    assert "that is what was published" in texts(effects)


def test_a_round_of_another_version_is_not_corrected_under_this_one() -> None:
    setup = make_setup("A")
    play = Play(setup).whole_round("32")
    effects = play.tell(correct(setup, "15", setting=decision.setting(make_setup("C"))))
    assert "another version" in texts(effects)


def test_variant_b_keeps_the_odds_table_that_was_drawn() -> None:
    setup = make_setup("B")
    drawn = Odds(
        table=2, device="odds", counter=1, nonce="0", proof="0", drawn=decision.moment(Play(setup).now)
    )
    play = Play(setup).whole_round("32")
    play.tell(*agreed(correct(setup, "15", odds=drawn)))
    body = play.bodies(Kind.CORRECTION)[-1]
    assert isinstance(body, CorrectionBody)
    assert body.odds == drawn


def test_the_memory_of_the_game_follows_the_correction_of_its_newest_result() -> None:
    setup = game_setup("craps")
    play = Play(setup).dice_round("2-2")
    assert dict(play.table.memory) == {"point": "4"}
    published: Any = play.bodies(Kind.RESULT)[-1]
    finding = Finding(kind="result", outcome=published.outcome)
    play.tell(*agreed(correct(setup, "3", "4", finding=finding)))
    assert play.table.memory == ()


def test_an_older_roll_of_craps_on_which_the_phase_depends_is_not_corrected() -> None:
    setup = game_setup("craps")
    play = Play(setup).dice_round("2-2")
    published: Any = play.bodies(Kind.RESULT)[-1]
    finding = Finding(kind="result", outcome=published.outcome)
    effects = play.tell(correct(setup, "3", "4", finding=finding, newest=False))
    assert "later rounds of this game depend on it" in texts(effects)
    assert whats(play.tell(correct(setup, "1", "3", finding=finding, newest=False))) == [
        "correction-proposed"
    ]


def test_t63_a_person_makes_sure_that_no_stake_is_imprisoned() -> None:
    play = Play(make_setup("D")).whole_round("0")
    assert whats(play.tell(NoneImprisoned("d1", "dealer"))) == ["none-imprisoned-refused"]
    assert whats(play.tell(NoneImprisoned("p1", "pit-boss"))) == ["none-imprisoned"]
