"""Each rule twice: what trips it, and what just does not. Ids stand in records and must not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.tables import (
    BALL,
    PLAIN,
    PROVEN,
    SECOND_WHEEL,
    START,
    WHEEL,
    game,
    game_setup,
    later,
    make_setup,
    odds_drawn,
)

from dollyd.daemon.core.events import Defect, DrawFacts, Ending, Flag, TurnsBasis
from dollyd.daemon.core.rules import Case, first
from dollyd.daemon.core.state import Betting, Declared, Draw, Mark, Round, Setup, Table, WitnessState
from dollyd.daemon.core.void_rules import DOUBT_RULES, VOID_RULES
from dollyd.wire.stamp import Stamp

VOID_IDS = [
    "declared",
    "unrecoverable",
    "device-fault",
    "ball-out",
    "foreign-object",
    "outside-influence",
    "ball-not-detected",
    "ball-with-rotor",
    "launch-failed",
    "same-direction",
    "too-few-turns",
    "between-sectors",
    "draw-abandoned",
]
DOUBT_IDS = [
    "restart-in-mid-round",
    "too-fast",
    "host-stalled",
    "entered-by-hand",
    "device-changed",
    "wrong-device",
    "joined-mid-game",
    "stale-frames",
    "device-lost",
    "data-gap",
    "illegal-transition",
    "counter-not-advanced",
    "witnesses-disagree",
    "number-changed",
    "not-on-wheel",
    "unconfirmed",
    "ball-briefly-not-detected",
    "rotor-over-speed",
    "rotor-stopped",
    "rotor-reversed",
    "sensors-disagree",
    "unread",
    "counts-differ",
    "capture-ended",
    "too-short",
    "witnesses-disagree",
    "witness-missing",
    "no-reading",
    "turns-not-proven",
    "turns-uncertain",
    "directions-disagree",
    "turns-disagree",
    "direction-not-proven",
    "direction-not-alternated",
    "draw-before-no-more-bets",
    "odds-before-no-more-bets",
    "odds-missing",
    "bets-still-open",
    "draw-timeout",
]

US_SD = make_setup("E", profile_name="us-sd")
FINLAND = make_setup("A")
IN_EARNEST = make_setup("A", rules={"game_min_ms": 5_000})
VARIANT_B = make_setup("B")
PATIENT = make_setup("A", unresolved_void_ms=60_000)
COUNTED = replace(PROVEN, turns_basis=TurnsBasis.COUNTED, ball_turns_x100=400, wheel_turns_x100=300)
CLOSED = Mark(WHEEL, START)
CLOCKWISE, COUNTER = "clockwise", "counter-clockwise"
WITH_BALL = make_setup("A", ball=True)
MONEY_WHEEL = game_setup("money-wheel")
ALTERNATING = make_setup("A", profile_name="fr")
PASSES_215 = DrawFacts(turns_basis=TurnsBasis.COUNTED, wheel_turns_x100=398)
PASSES_216 = replace(PASSES_215, wheel_turns_x100=400)


def a_round(
    facts: DrawFacts = PROVEN,
    value: tuple[str, ...] = ("17",),
    ending: Ending | None = None,
    others: tuple[WitnessState, ...] = (),
    **changes: Any,
) -> Round:
    """A round that is well at rest: no rule applies to it unless a test changes something."""
    witnesses = (WitnessState(game(), facts, value, ending), *others)
    good = Round(
        1,
        betting=Betting.CLOSED,
        draw=Draw.AT_REST,
        witnesses=witnesses,
        opened=START,
        bets_closed=CLOSED,
        draw_started=START,
        first_reading=START,
        at_rest=START,
        odds=odds_drawn(1),
        odds_at=START,
    )
    return replace(good, **changes)


def second(value: str) -> WitnessState:
    return WitnessState(game(5, SECOND_WHEEL), PROVEN, (value,))


def ball(facts: DrawFacts = PLAIN, *, observed: bool = True, ending: Ending | None = None) -> WitnessState:
    """A ball detector's story of the round."""
    return WitnessState(game(8, BALL), facts, (), ending, observed)


def case_of(setup: Setup, current: Round, at: Stamp = START, wheel_direction: str = "") -> Case:
    return Case(setup, Table(open=True, number=1, round=current, wheel_direction=wheel_direction), at)


def flagged(flag: Flag) -> Round:
    return a_round(replace(PROVEN, flags=(flag,)))


def spoilt(defect: Defect) -> Round:
    return a_round(replace(PROVEN, defects=(defect,)))


def moving(**changes: Any) -> Round:
    return a_round(**{"value": (), "draw": Draw.MOVING, "at_rest": None, "first_reading": None} | changes)


class Pair:
    """One rule, a round to which it applies, and one to which it just does not."""

    def __init__(
        self, rule: str, trips: Round, spares: Round, setup: Setup = FINLAND, at_ms: tuple[int, int] = (0, 0)
    ) -> None:
        self.rule = rule
        self.trips = case_of(setup, trips, later(START, at_ms[0]), CLOCKWISE)
        self.spares = case_of(setup, spares, later(START, at_ms[1]), CLOCKWISE)


SPINNING = moving(betting=Betting.OPEN, bets_closed=None)
VOID_PAIRS = [
    Pair("declared", a_round(declared=Declared("d1", "dealer", "coin")), a_round()),
    Pair(
        "unrecoverable",
        a_round(unresolved=Mark("data-gap", START)),
        a_round(unresolved=Mark("data-gap", START)),
        PATIENT,
        (60_000, 59_999),
    ),
    Pair(
        "unrecoverable",
        a_round(unresolved=Mark("data-gap", START)),
        a_round(),
        PATIENT,
        (60_000, 60_000),
    ),
    Pair("device-fault", flagged(Flag.DEVICE_FAULT), flagged(Flag.LAUNCH_FAILED)),
    Pair("ball-out", flagged(Flag.BALL_OUT), spoilt(Defect.BALL_BRIEFLY_NOT_DETECTED)),
    Pair("foreign-object", flagged(Flag.SECOND_BALL), a_round()),
    Pair("outside-influence", flagged(Flag.TOUCHED), flagged(Flag.RUNAWAY)),
    Pair("ball-not-detected", flagged(Flag.BALL_NOT_DETECTED), spoilt(Defect.BALL_BRIEFLY_NOT_DETECTED)),
    Pair("ball-with-rotor", flagged(Flag.BALL_WITH_ROTOR), a_round()),
    Pair("launch-failed", flagged(Flag.LAUNCH_FAILED), a_round(replace(PROVEN, relaunches=1))),
    Pair(
        "same-direction",
        a_round(replace(PROVEN, ball_direction="clockwise", wheel_direction="clockwise")),
        a_round(replace(PROVEN, ball_direction="clockwise", wheel_direction="counter-clockwise")),
        US_SD,
    ),
    Pair(
        "too-few-turns",
        a_round(replace(COUNTED, ball_turns_x100=399)),
        a_round(replace(COUNTED, ball_turns_x100=400)),
        US_SD,
    ),
    Pair(
        "too-few-turns",
        a_round(replace(COUNTED, turns_basis=TurnsBasis.REPORTED, wheel_turns_x100=299)),
        a_round(replace(COUNTED, turns_basis=TurnsBasis.REPORTED, wheel_turns_x100=300)),
        make_setup("A", rules={"wheel_min_turns": 3}),
    ),
    Pair("too-few-turns", a_round(PASSES_215, ("7",)), a_round(PASSES_216, ("7",)), MONEY_WHEEL),
    Pair(
        "between-sectors",
        moving(facts=replace(PASSES_216, flags=(Flag.BETWEEN_SECTORS,))),
        a_round(PASSES_216, ("7",)),
        MONEY_WHEEL,
    ),
    Pair(
        "draw-abandoned",
        moving(ending=Ending.SHUT_DOWN),
        moving(ending=Ending.SUPERSEDED),
    ),
    Pair(
        "draw-abandoned",
        moving(ending=Ending.SHUT_DOWN),
        moving(others=(ball(ending=Ending.SHUT_DOWN),)),
        WITH_BALL,
    ),
]

DOUBT_PAIRS = [
    Pair("restart-in-mid-round", a_round(interrupted=True), a_round()),
    Pair("entered-by-hand", a_round(entered=Mark("d1", START)), a_round()),
    *(
        Pair(str(defect), spoilt(defect), spoilt(other))
        for defect, other in zip(Defect, [*list(Defect)[1:], next(iter(Defect))], strict=True)
    ),
    Pair("witnesses-disagree", a_round(others=(second("18"),)), a_round(others=(second("17"),))),
    Pair("witness-missing", a_round(), a_round(), WITH_BALL, (1_000, 999)),
    Pair("witness-missing", a_round(), a_round(others=(ball(),)), WITH_BALL, (1_000, 1_000)),
    Pair(
        "no-reading",
        moving(others=(ball(observed=False, ending=Ending.SHUT_DOWN),)),
        moving(others=(ball(ending=Ending.SHUT_DOWN),)),
        WITH_BALL,
    ),
    Pair("no-reading", moving(ending=Ending.SUPERSEDED), a_round(ending=Ending.SUPERSEDED)),
    Pair(
        "turns-not-proven",
        a_round(replace(PROVEN, turns_basis=TurnsBasis.NONE)),
        a_round(replace(PROVEN, turns_basis=TurnsBasis.CERTIFIED)),
        US_SD,
    ),
    Pair(
        "turns-not-proven",
        a_round(replace(COUNTED, ball_turns_x100=None)),
        a_round(replace(COUNTED, wheel_turns_x100=None)),
        US_SD,
    ),
    Pair(
        "turns-not-proven",
        a_round(COUNTED),
        a_round(PROVEN),
        make_setup("A", rules={"ball_min_turns": 4, "turns_basis": frozenset({"certified"})}),
    ),
    Pair(
        "turns-uncertain",
        a_round(replace(COUNTED, ball_turns_x100=399, turns_lower_bound=True)),
        a_round(replace(COUNTED, ball_turns_x100=400, turns_lower_bound=True)),
        US_SD,
    ),
    Pair(
        "directions-disagree",
        a_round(others=(ball(replace(PLAIN, ball_direction=COUNTER)),)),
        a_round(others=(ball(replace(PLAIN, ball_direction=CLOCKWISE)),)),
        WITH_BALL,
    ),
    Pair(
        "turns-disagree",
        a_round(COUNTED, others=(ball(replace(COUNTED, ball_turns_x100=501)),)),
        a_round(COUNTED, others=(ball(replace(COUNTED, ball_turns_x100=500)),)),
        WITH_BALL,
    ),
    Pair(
        "direction-not-alternated",
        a_round(replace(PROVEN, wheel_direction=CLOCKWISE, ball_direction=COUNTER)),
        a_round(PROVEN),
        ALTERNATING,
    ),
    Pair("too-fast", a_round(spoilt="too-fast"), a_round()),
    Pair("host-stalled", a_round(spoilt="host-stalled"), a_round()),
    Pair("too-short", a_round(opened=later(START, -4_999)), a_round(opened=later(START, -5_000)), IN_EARNEST),
    Pair("device-changed", a_round(device_changed=True), a_round()),
    Pair("draw-before-no-more-bets", a_round(early_draw=True), a_round()),
    Pair("direction-not-proven", a_round(replace(PROVEN, wheel_direction="")), a_round(PROVEN), US_SD),
    Pair("odds-before-no-more-bets", a_round(odds_early=True), a_round()),
    Pair("odds-missing", a_round(odds=None), a_round(odds=None), VARIANT_B, (5_000, 4_999)),
    Pair("odds-missing", a_round(odds=None, odds_failed="bad-mac"), a_round(odds=None), VARIANT_B),
    Pair("odds-missing", a_round(odds=None), a_round(), VARIANT_B, (5_000, 5_000)),
    Pair(
        "bets-still-open",
        a_round(betting=Betting.OPEN, bets_closed=None),
        moving(betting=Betting.OPEN, bets_closed=None),
    ),
    Pair("draw-timeout", moving(), moving(), FINLAND, (120_000, 119_999)),
    Pair("draw-timeout", SPINNING, SPINNING, FINLAND, (120_000, 119_999)),
    Pair("draw-timeout", moving(), a_round(), FINLAND, (120_000, 120_000)),
]


def void_of(case: Case) -> str:
    rule = first(VOID_RULES, case)
    return rule.id if rule else ""


def doubt_of(case: Case) -> str:
    rule = first(DOUBT_RULES, case)
    return rule.id if rule else ""


def test_ids_and_their_order_are_as_written_here() -> None:
    assert [rule.id for rule in VOID_RULES] == VOID_IDS
    assert [rule.id for rule in DOUBT_RULES] == DOUBT_IDS


def test_every_rule_has_a_pair() -> None:
    assert {pair.rule for pair in VOID_PAIRS} == set(VOID_IDS)
    assert {pair.rule for pair in DOUBT_PAIRS} == set(DOUBT_IDS)


@pytest.mark.parametrize("rule", [*VOID_RULES, *DOUBT_RULES], ids=lambda rule: rule.id)
def test_a_rule_has_a_clause_and_a_text(rule: Any) -> None:
    assert rule.clause
    assert rule.text
    assert rule.clause.isascii()
    assert rule.text.isascii()


@pytest.mark.parametrize("pair", VOID_PAIRS, ids=lambda pair: pair.rule)
def test_void_rule(pair: Pair) -> None:
    assert void_of(pair.trips) == pair.rule
    assert void_of(pair.spares) != pair.rule


@pytest.mark.parametrize("pair", DOUBT_PAIRS, ids=lambda pair: pair.rule)
def test_doubt_rule(pair: Pair) -> None:
    assert void_of(pair.trips) == "", "nothing positive is seen: no void"
    assert doubt_of(pair.trips) == pair.rule
    assert doubt_of(pair.spares) != pair.rule


def test_a_round_without_fault_is_neither_void_nor_doubtful() -> None:
    for setup in (FINLAND, VARIANT_B, US_SD):
        case = case_of(setup, a_round(), START)
        assert (void_of(case), doubt_of(case)) == ("", "")


# --- what a void must not be concluded from --------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(
            replace(COUNTED, ball_turns_x100=100, defects=(Defect.DATA_GAP,)), id="a-count-with-a-gap"
        ),
        pytest.param(replace(COUNTED, turns_basis=TurnsBasis.CERTIFIED, ball_turns_x100=1), id="certified"),
        pytest.param(replace(COUNTED, turns_basis=TurnsBasis.NONE, ball_turns_x100=1), id="no-basis"),
    ],
)
def test_turns_void_nothing_where_they_are_no_proof(facts: DrawFacts) -> None:
    assert void_of(case_of(US_SD, a_round(facts), START)) == ""


def test_turns_are_not_judged_before_the_ball_is_at_rest() -> None:
    facts = replace(COUNTED, ball_turns_x100=100)
    assert void_of(case_of(US_SD, moving(facts=facts), START)) == ""


def test_a_direction_not_known_is_not_the_same_direction() -> None:
    facts = replace(PROVEN, ball_direction="", wheel_direction="")
    assert void_of(case_of(US_SD, a_round(facts), START)) == ""


def test_a_shut_down_with_a_defect_is_doubtful_and_not_abandoned() -> None:
    lost = replace(PROVEN, defects=(Defect.DATA_GAP,))
    case = case_of(FINLAND, moving(facts=lost, ending=Ending.SHUT_DOWN), START)
    assert (void_of(case), doubt_of(case)) == ("", "data-gap")


def test_a_shut_down_after_the_number_is_no_void() -> None:
    assert void_of(case_of(FINLAND, a_round(ending=Ending.SHUT_DOWN), START)) == ""


def test_an_unresolved_round_is_never_void_by_itself_where_the_profile_is_silent() -> None:
    waiting = a_round(unresolved=Mark("data-gap", START))
    assert void_of(case_of(FINLAND, waiting, later(START, 10**9))) == ""


def test_what_was_seen_comes_before_what_is_doubtful() -> None:
    both = replace(PROVEN, flags=(Flag.DEVICE_FAULT,), defects=(Defect.DATA_GAP,))
    assert void_of(case_of(FINLAND, a_round(both), START)) == "device-fault"


def test_a_dealer_who_confirms_supplies_what_no_device_proves() -> None:
    watched = make_setup("E", profile_name="us-sd", confirm="dealer")
    case = case_of(watched, a_round(PLAIN))
    assert (void_of(case), doubt_of(case)) == ("", "")
    assert void_of(case_of(watched, a_round(replace(COUNTED, ball_turns_x100=399)))) == "too-few-turns"


def test_directions_are_compared_when_all_have_been_heard() -> None:
    differing = ball(replace(PLAIN, ball_direction=COUNTER), observed=False)
    assert doubt_of(case_of(WITH_BALL, a_round(others=(differing,)))) == ""


def test_a_direction_on_which_devices_differ_voids_nothing() -> None:
    detector = ball(
        replace(PLAIN, ball_direction=COUNTER)
    )  # that of the rotor, but the wheel saw it otherwise
    case = case_of(make_setup("E", profile_name="us-sd", ball=True), a_round(others=(detector,)))
    assert (void_of(case), doubt_of(case)) == ("", "directions-disagree")


def test_one_witness_is_enough_to_trip_a_rule() -> None:
    faulty = WitnessState(game(5, SECOND_WHEEL), replace(PROVEN, flags=(Flag.DEVICE_FAULT,)), ("17",))
    assert void_of(case_of(FINLAND, a_round(others=(faulty,)), START)) == "device-fault"
