"""Money wheel and boule in the round, the order of bets and draw, directions, pace (rulebook 3, 4, 11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.tables import SECOND_WHEEL, WHEEL, Play, game, game_setup, make_setup

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Flag,
    GameEnded,
    GameStarted,
    Reading,
    Restarted,
    TableClosed,
    TableOpened,
    TurnsBasis,
    VoidDeclared,
)
from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.state import Bound
from dollyd.wire.record import Kind

MONEY_WHEEL = game_setup("money-wheel")
SECTOR_OF_20 = "14"


def passed(passes: int, **changes: object) -> DrawFacts:
    """What a money wheel shows after so many passes that the host counted."""
    turns = passes * 100 // 54
    facts = DrawFacts(turns_basis=TurnsBasis.COUNTED, wheel_turns_x100=turns, wheel_direction="clockwise")
    return replace(facts, **changes)  # type: ignore[arg-type]  # a test names real fields


def spun(facts: DrawFacts, sector: str = SECTOR_OF_20) -> Play:
    play = Play(MONEY_WHEEL).spinning()
    play.tell(Reading(game(), (sector,), facts))
    return play


def ending(play: Play) -> tuple[Kind, str]:
    last = play.emitted[-1]
    return last.kind, getattr(last.body, "rule", "")


# --- the money wheel -----------------------------------------------------------------------------------


def test_the_release_of_the_wheel_closes_the_bets() -> None:
    play = Play(MONEY_WHEEL).spinning()
    assert play.phase is Phase.NO_MORE_BETS
    assert play.body(Kind.BETS_CLOSED).by == "draw-start"


def test_t37_216_passes_to_the_centre_of_a_sector_count() -> None:
    play = spun(passed(216))
    assert ending(play) == (Kind.RESULT, "")
    assert play.body(Kind.RESULT).outcome == {"sector": 14, "symbol": "20"}


def test_t37_215_passes_are_too_few() -> None:
    play = spun(passed(215))
    assert ending(play) == (Kind.VOID, "too-few-turns")
    assert play.body(Kind.VOID).evidence.witnesses[0].wheel_turns_x100 == 398


def test_three_turns_are_enough_in_new_york() -> None:
    play = Play(game_setup("money-wheel", profile_name="us-ny-bigsix")).spinning()
    play.tell(Reading(game(), (SECTOR_OF_20,), passed(162)))
    assert ending(play) == (Kind.RESULT, "")


def test_a_count_that_lost_events_is_a_lower_bound() -> None:
    assert ending(spun(passed(216, turns_lower_bound=True))) == (Kind.RESULT, "")
    assert ending(spun(passed(215, turns_lower_bound=True))) == (Kind.UNRESOLVED, "turns-uncertain")


def test_a_total_that_is_not_what_was_counted_is_no_void() -> None:
    play = spun(passed(215, defects=(Defect.COUNTS_DIFFER,)))
    assert ending(play) == (Kind.UNRESOLVED, "counts-differ")


def test_turns_that_nothing_proves_are_no_result() -> None:
    assert ending(spun(DrawFacts())) == (Kind.UNRESOLVED, "turns-not-proven")


def test_turns_are_not_judged_while_the_wheel_turns() -> None:
    play = Play(MONEY_WHEEL).spinning()
    play.tell(DrawUpdate(game(), passed(54)))
    assert play.phase is Phase.NO_MORE_BETS


def test_t38_a_pointer_on_a_divider_is_void() -> None:
    play = Play(MONEY_WHEEL).spinning()
    divider = passed(400, flags=(Flag.BETWEEN_SECTORS,))
    play.tell(DrawUpdate(game(), divider))
    assert ending(play) == (Kind.VOID, "between-sectors")
    play.tell(Reading(game(), (SECTOR_OF_20,), divider), GameEnded(game(), Ending.SUPERSEDED, divider))
    assert Kind.RESULT not in play.kinds


def test_too_few_turns_and_a_divider_are_void_for_the_turns() -> None:
    play = Play(MONEY_WHEEL).spinning()
    play.tell(DrawUpdate(game(), passed(100, flags=(Flag.BETWEEN_SECTORS,))))
    assert ending(play) == (Kind.VOID, "too-few-turns")


def test_t39_a_hand_on_the_wheel_is_void() -> None:
    play = Play(MONEY_WHEEL).spinning()
    play.tell(DrawUpdate(game(), passed(300, flags=(Flag.TOUCHED,))))
    assert ending(play) == (Kind.VOID, "outside-influence")
    assert "2.3 c" in play.body(Kind.VOID).clause


def test_a_sector_that_the_wheel_has_not_is_no_result() -> None:
    assert ending(spun(passed(216), "55")) == (Kind.UNRESOLVED, "not-on-wheel")


# --- boule, and who may declare a void -----------------------------------------------------------------


def test_a_round_of_boule_tells_number_and_cup() -> None:
    play = Play(game_setup("boule")).no_more_bets()
    play.tell(Reading(game(), ("7", "6"), DrawFacts()))
    outcome = play.body(Kind.RESULT).outcome
    assert (outcome["number"], outcome["cup"], outcome["colour"]) == ("7", 6, "red")


@pytest.mark.parametrize("reading", [("7", "7"), ("0", "6"), ("7",)], ids="-".join)
def test_a_cup_that_holds_another_number_is_no_result(reading: tuple[str, ...]) -> None:
    play = Play(game_setup("boule")).no_more_bets()
    play.tell(Reading(game(), reading, DrawFacts()))
    assert ending(play) == (Kind.UNRESOLVED, "not-on-wheel")


@pytest.mark.parametrize(
    ("name", "role", "accepted"),
    [
        ("roulette", "dealer", True),
        ("roulette", "inspector", False),
        ("boule", "dealer", True),
        ("boule", "inspector", True),
        ("boule", "pit-boss", False),
        ("money-wheel", "inspector", True),
        ("tuplanoppa", "inspector", False),
        ("sic-bo", "dealer", True),
        ("craps", "dealer", True),
    ],
)
def test_t30_who_declares_a_void(name: str, role: str, accepted: bool) -> None:
    setup = game_setup(name, rules={"dice_permission_required": False})
    play = Play(setup).spinning()
    play.tell(VoidDeclared("x1", role, "too few turns"))
    if accepted:
        assert (play.body(Kind.VOID).role, play.body(Kind.VOID).declared_by) == (role, "x1")
    else:
        assert play.whats() == ["void-refused"]
        assert Kind.VOID not in play.kinds


# --- the order of bets and draw ------------------------------------------------------------------------


def test_a_draw_before_no_more_bets_is_an_order_violation_where_the_profile_forbids_it() -> None:
    play = Play(make_setup("A", rules={"nmb_before_draw": "required"})).spinning()
    assert play.whats() == ["order-violation"]
    assert ending(play) == (Kind.UNRESOLVED, "draw-before-no-more-bets")


def test_a_draw_after_no_more_bets_is_in_order() -> None:
    play = Play(make_setup("A", rules={"nmb_before_draw": "required"})).bets_open()
    play.tell(BetsClosed("d1"), DrawStarted(game()))
    assert play.whats() == []
    assert play.phase is Phase.NO_MORE_BETS


SHAKEN_FIRST = game_setup("sic-bo", profile_name="fr")


def dice(number: int = 1) -> GameStarted:
    return GameStarted(game(number, "dice"))


def test_in_france_the_dice_are_shaken_before_bets_are_taken_and_uncovered_after() -> None:
    play = Play(SHAKEN_FIRST).open()
    play.tell(dice(), DrawStarted(dice().game))
    assert play.phase is Phase.SPINNING
    play.wait(300_000)
    assert play.phase is Phase.SPINNING, "no clock runs before no more bets"
    play.tell(BetsClosed("d1"), Reading(dice().game, ("1", "2", "3"), DrawFacts()))
    times = play.body(Kind.RESULT).evidence.times
    assert times.draw_started.monotonic_ns < times.bets_closed.monotonic_ns < times.at_rest.monotonic_ns


def test_in_france_dice_that_were_read_under_the_cup_wait_for_no_more_bets() -> None:
    play = Play(SHAKEN_FIRST).open()
    play.tell(dice(), DrawStarted(dice().game), Reading(dice().game, ("1", "2", "3"), DrawFacts()))
    assert play.phase is Phase.AT_REST
    assert play.kinds == [Kind.SESSION, Kind.ROUND], "nothing of it leaves while bets are open"
    play.wait(300_000)
    play.tell(Confirmed("d1"))
    assert play.whats() == ["confirmation-refused"]
    assert Kind.RESULT not in play.kinds
    play.tell(BetsClosed("d1"))
    assert play.kinds[-2:] == [Kind.BETS_CLOSED, Kind.RESULT]


def test_elsewhere_dice_at_rest_before_no_more_bets_are_no_result() -> None:
    play = Play(game_setup("sic-bo")).open()
    play.tell(dice(), DrawStarted(dice().game), Reading(dice().game, ("1", "2", "3"), DrawFacts()))
    assert ending(play) == (Kind.UNRESOLVED, "bets-still-open")


def test_in_france_a_faulty_shake_is_rejected_while_bets_are_open() -> None:
    play = Play(SHAKEN_FIRST).open()
    play.tell(dice(), DrawStarted(dice().game))
    play.tell(DrawUpdate(dice().game, DrawFacts(flags=(Flag.NOT_SHAKEN,))))
    assert ending(play) == (Kind.THROW_REJECTED, "not-shaken")
    assert play.phase is Phase.BETS_OPEN


DISPLAY = make_setup("A", devices=(Bound(WHEEL, "winning-number-line", "wheel", told_at_end=True),))


def test_an_announcement_opens_the_round_where_no_device_does() -> None:
    play = Play(DISPLAY).open()
    play.tell(BetsClosed("d1"))
    assert play.kinds[-2:] == [Kind.ROUND, Kind.BETS_CLOSED]
    assert play.body(Kind.ROUND).game_ref == ""
    play.tell(GameStarted(game()), DrawStarted(game()), Reading(game(), ("17",), DrawFacts()))
    assert play.emitted[-1].round == 1
    assert play.body(Kind.RESULT).evidence.game_ref == "wheel/s1/001"


def test_a_game_that_is_told_at_its_end_belongs_to_a_round_that_is_open_and_opens_none() -> None:
    told = GameStarted(game(), told_at_end=True)
    play = Play(DISPLAY).open()
    play.tell(told, DrawStarted(game()), Reading(game(), ("17",), DrawFacts()))
    assert play.phase is Phase.WAITING
    play.tell(BetsClosed("d1"))
    assert [body.games for body in play.bodies(Kind.GAP)] == [["wheel/s1/001"]]
    later = game(2)
    play.tell(GameStarted(later, told_at_end=True), DrawStarted(later), Reading(later, ("17",), DrawFacts()))
    assert play.body(Kind.RESULT).evidence.game_ref == "wheel/s1/002"


@pytest.mark.parametrize("variant", "AB")
def test_no_more_bets_called_once_more_after_the_round_leaves_the_next_one_open(variant: str) -> None:
    play = Play(make_setup(variant)).whole_round(number=1)
    play.tell(BetsClosed("d1"))
    assert play.kinds[-1] is Kind.RESULT
    play.bets_open(2)
    assert play.phase is Phase.BETS_OPEN
    assert play.odds_asked == ([1] if variant == "B" else []), "no table is drawn before bets are taken"


def test_one_device_that_tells_of_the_beginning_is_enough() -> None:
    both = (*DISPLAY.devices, Bound(SECOND_WHEEL, "cammegh-ss2", "wheel"))
    play = Play(make_setup("A", devices=both)).open()
    play.tell(BetsClosed("d1"))
    assert play.phase is Phase.WAITING


def test_what_a_device_says_of_bets_opens_no_round() -> None:
    play = Play(make_setup("A")).open()
    play.tell(BetsClosed(WHEEL, game()))
    assert play.phase is Phase.WAITING


# --- direction of the wheel, pace ----------------------------------------------------------------------


def turned(play: Play, number: int, direction: str) -> Play:
    other = "clockwise" if direction == "counter-clockwise" else "counter-clockwise"
    facts = DrawFacts(wheel_direction=direction, ball_direction=other)
    return play.at_rest("17", number, facts)


def test_in_france_the_wheel_turns_the_other_way_each_round() -> None:
    play = Play(make_setup("C", profile_name="fr"))
    turned(play, 1, "clockwise")
    turned(play, 2, "counter-clockwise")
    turned(play, 3, "clockwise")
    assert play.kinds.count(Kind.RESULT) == 3
    turned(play, 4, "clockwise")
    assert ending(play) == (Kind.UNRESOLVED, "direction-not-alternated")


FRANCE = make_setup("C", profile_name="fr", hold_ms=2_000)
COIN = VoidDeclared("d1", "dealer", "a coin")


def judged(play: Play, number: int, direction: str) -> Kind:
    """What a round comes to in which the wheel turned so."""
    turned(play, number, direction).wait(2_000)
    return play.kinds[-1]


def test_the_wheel_turns_the_other_way_after_a_void_spin_too() -> None:
    play = Play(FRANCE)
    assert judged(play, 1, "clockwise") is Kind.RESULT
    turned(play, 2, "counter-clockwise").tell(COIN)
    assert judged(play, 3, "clockwise") is Kind.RESULT
    turned(play, 4, "counter-clockwise").tell(COIN)
    assert judged(play, 5, "counter-clockwise") is Kind.UNRESOLVED
    play.tell(COIN)
    assert judged(play, 6, "counter-clockwise") is Kind.UNRESOLVED, "compared with the spin before it"


MISSED: dict[str, Callable[[Play], object]] = {
    "void-in-mid-spin": lambda play: play.no_more_bets(2).tell(COIN),
    "unread": lambda play: play.no_more_bets(2).tell(
        GameEnded(game(2), Ending.LOST, DrawFacts(defects=(Defect.DEVICE_LOST,))), COIN
    ),
    "a-gap-in-it": lambda play: play.no_more_bets(2).tell(
        Reading(game(2), ("17",), DrawFacts(wheel_direction="counter-clockwise", defects=(Defect.DATA_GAP,))),
        COIN,
    ),
    "joined": lambda play: play.tell(GameStarted(game(2), joined=True)),
    "while-the-table-was-closed": lambda play: play.tell(
        TableClosed("d1"), GameStarted(game(2)), Reading(game(2), ("17",), DrawFacts()), TableOpened("d1")
    ),
    "device-lost": lambda play: play.tell(DeviceTrouble(WHEEL, "lost", "unplugged"), DeviceReady(WHEEL)),
    "restart": lambda play: play.tell(Restarted("2026-11-29T18:41:20Z")),
    "while-the-round-waited": lambda play: turned(play, 2, "counter-clockwise").tell(GameStarted(game(9))),
    "lost-while-the-round-waited": lambda play: turned(play, 2, "counter-clockwise").tell(
        DeviceTrouble(WHEEL, "lost", "unplugged"), DeviceReady(WHEEL)
    ),
}


@pytest.mark.parametrize("direction", ["clockwise", "counter-clockwise"])
@pytest.mark.parametrize("missed", MISSED.values(), ids=MISSED.keys())
def test_where_a_spin_may_have_been_missed_the_next_one_may_turn_either_way(
    missed: Callable[[Play], object], direction: str
) -> None:
    play = Play(FRANCE)
    judged(play, 1, "clockwise")
    missed(play)
    play.wait(2_000)
    assert judged(play, 3, direction) is Kind.RESULT
    assert judged(play, 4, direction) is Kind.UNRESOLVED, "from there on it counts again"


def test_more_rounds_an_hour_than_the_profile_allows_are_an_incident() -> None:
    play = Play(make_setup("A", profile_name="gb")).open()
    for number in range(1, 51):
        play.whole_round(number=number)
    assert play.whats() == []
    play.whole_round(number=51)
    assert play.whats() == ["pace-exceeded"]
    assert play.kinds.count(Kind.RESULT) == 51
    play.whole_round(number=52)
    assert play.whats() == ["pace-exceeded"], "told once, then counted anew"


def test_rounds_of_an_hour_ago_do_not_count_for_the_pace() -> None:
    play = Play(make_setup("A", rules={"round_pace_max_per_hour": 2})).open()
    play.whole_round(number=1)
    play.whole_round(number=2)
    play.wait(3_600_000)
    play.whole_round(number=3)
    assert play.whats() == []
