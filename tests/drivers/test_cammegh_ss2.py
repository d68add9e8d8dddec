"""When the SlingShot 2 driver reads a number, and when the path to it is broken (device document, part 1)."""

from __future__ import annotations

import pytest
from tests.support.wheel_lines import (
    AMERICAN,
    FOUR_ZEROS,
    PERIOD_MS,
    SILENCE_MS,
    Ear,
    Game,
    device_setup,
    pocket_text,
    status,
)

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DrawStarted,
    DrawUpdate,
    Ending,
    GameEnded,
    GameStarted,
    Reading,
    ReadingContradicted,
    TurnsBasis,
)

GAME = Game()


def after(*lines: str) -> Ear:
    """A wheel seen from its closed state on, and what it said then."""
    return Ear().open_idle().hear(*lines)


# --- the rule --------------------------------------------------------------------------------------


def test_a_whole_game_tells_its_story_once_and_in_order() -> None:
    ear = after(*GAME.lines())
    story = [e for e in ear.events if isinstance(e, GameStarted | DrawStarted | BetsClosed | Reading)]
    assert [type(event) for event in story] == [GameStarted, DrawStarted, BetsClosed, Reading]
    assert len({event.game for event in story}) == 1
    assert ear.numbers == ["23"]
    assert ear.of(GameEnded) == []


def test_the_bare_number_confirms_the_first_state_5_line() -> None:
    ear = after(*GAME.lines("234"), pocket_text("23"))
    assert ear.numbers == []
    assert ear.hear(GAME.line(5)).numbers == ["23"]


def test_a_port_without_bare_number_needs_two_equal_lines() -> None:
    ear = after(*GAME.lines("234"), GAME.line(5))
    assert ear.numbers == []
    assert ear.hear(GAME.line(5)).numbers == ["23"]


def test_where_bare_numbers_come_the_old_number_without_one_needs_a_third_line() -> None:
    """Two lines of state 4 that are damaged alike, by one bit, show the old number in state 5."""
    game = Game(18, "23", before="23", bare=False)
    ear = after(*GAME.lines(), *game.lines("234"), game.line(5), game.line(5))
    assert ear.numbers == ["23"]
    assert ear.hear(game.line(5)).numbers == ["23", "23"]
    assert after(*game.lines("234"), game.line(5), game.line(5)).numbers == ["23"], "a port without any"


def test_a_bare_number_that_comes_after_its_status_line_confirms_it() -> None:
    assert after(*GAME.lines("234"), GAME.line(5), pocket_text("23")).numbers == ["23"]


def test_repeated_result_lines_are_one_result() -> None:
    assert after(*GAME.lines("234"), *[GAME.line(5)] * 18, pocket_text("23")).numbers == ["23"]


def test_of_a_game_under_way_when_first_heard_only_the_end_is_told() -> None:
    """A table that is closed meanwhile must know that it is over when it opens."""
    ear = Ear().open().hear(*GAME.lines("45"))
    assert ear.of(GameEnded) == []
    ear.hear(status(6, GAME.counter, GAME.pocket), status(6, GAME.counter, GAME.pocket))
    (ended,) = ear.of(GameEnded)
    assert [event.game for event in ear.of(GameStarted)] == [ended.game]
    assert ear.of(Reading) == []


def test_the_old_number_of_states_1_to_4_is_never_read() -> None:
    assert after(*Game(fours=50).lines("234")).numbers == []


def test_what_the_reading_says_of_the_draw() -> None:
    facts = after(*Game(direction=1).lines()).facts
    assert facts.turns_basis is TurnsBasis.CERTIFIED
    assert (facts.wheel_direction, facts.ball_direction) == ("counter-clockwise", "clockwise")
    assert dict(facts.details) == {"bare_number": "23", "status_lines": "1"}
    assert facts.defects == ()
    assert facts.flags == ()


@pytest.mark.parametrize(
    ("pockets", "pocket"),
    [(AMERICAN, "0"), (AMERICAN, "00"), (FOUR_ZEROS, "000"), (FOUR_ZEROS, "0000"), (FOUR_ZEROS, "36")],
)
def test_every_zero_is_its_own_pocket(pockets: tuple[str, ...], pocket: str) -> None:
    ear = Ear(device_setup(pockets)).open_idle().hear(*Game(pocket=pocket).lines())
    assert ear.numbers == [pocket]


@pytest.mark.parametrize("pocket", ["00", "000", "37"])
def test_a_number_that_is_not_on_this_wheel_is_none(pocket: str) -> None:
    ear = after(*Game(pocket=pocket, bare=False).lines())
    ear.hear(status(2, 18, pocket))
    assert ear.numbers == []
    assert Defect.NOT_ON_WHEEL in ear.facts.defects


def test_bonus_numbers_go_into_the_details() -> None:
    lines = [*GAME.lines("23"), "*Y;1;123", "*Y;2;255;30", *GAME.lines("4"), "*Y;3;999;00", *GAME.lines("5")]
    details = dict(after(*lines).facts.details)
    assert (details["bonus_1"], details["bonus_2"]) == ("123", "255")
    assert "bonus_3" not in details


BONUS_GAME = [*GAME.lines("23"), "*Y;1;011", "*Y;2;022", *GAME.lines("4"), pocket_text("23"), GAME.line(5)]


def test_bonus_numbers_that_come_after_the_first_state_5_line_are_waited_for() -> None:
    ear = after(*BONUS_GAME, "*Y;4;044", "*Y;5;055")
    assert ear.numbers == []
    details = dict(ear.hear(GAME.line(5)).facts.details)
    assert (details["bonus_4"], details["bonus_5"]) == ("44", "55")
    assert ear.hear(GAME.line(5)).numbers == ["23"]


def test_a_number_does_not_wait_for_bonus_numbers_without_end() -> None:
    assert after(*BONUS_GAME).quiet(3 * PERIOD_MS + 1).hear(GAME.line(5)).numbers == ["23"]


@pytest.mark.parametrize(
    "closing",
    [[status(2, 18, "23")], [status(1, 17, "23")], [status(6, 17, "23", flags=4)] * 2, []],
)
def test_a_number_that_waits_for_bonus_numbers_is_not_lost(closing: list[str]) -> None:
    ear = after(*BONUS_GAME).hear(*closing)
    assert (ear if closing else ear.lose()).numbers == ["23"]
    assert ear.facts.flags == ()
    assert ear.of(GameEnded) == []


def test_a_number_that_changes_while_bonus_numbers_are_waited_for_is_none() -> None:
    assert after(*BONUS_GAME, status(5, 17, "22"), GAME.line(5), status(2, 18, "23")).numbers == []


# --- the number must stay --------------------------------------------------------------------------


def test_a_number_that_changes_is_none() -> None:
    ear = after(*Game(bare=False).lines("234"), GAME.line(5), status(5, 17, "22"), GAME.line(5), GAME.line(5))
    assert ear.hear(status(2, 18, "23")).numbers == []
    assert Defect.NUMBER_CHANGED in ear.facts.defects


@pytest.mark.parametrize("first", ["bare", "status"])
def test_a_bare_number_that_disagrees_spoils_the_game(first: str) -> None:
    lines = [pocket_text("22"), GAME.line(5)]
    ear = after(*GAME.lines("234"), *(lines if first == "bare" else reversed(lines)), GAME.line(5))
    assert ear.hear(status(2, 18, "23")).numbers == []
    assert Defect.WITNESSES_DISAGREE in ear.facts.defects


def test_two_bare_numbers_that_differ_spoil_the_game() -> None:
    ear = after(*GAME.lines("234"), "22", "23", *GAME.lines("5"))
    assert ear.numbers == []


def test_a_number_contradicted_after_its_reading_is_told_once() -> None:
    ear = after(*GAME.lines(), status(5, 17, "22"), status(5, 17, "22"), GAME.line(5))
    assert [event.value for event in ear.of(ReadingContradicted)] == [("22",)]
    assert ear.numbers == ["23"]


def test_a_late_bare_number_contradicts_too() -> None:
    ear = after(*GAME.lines(), "22")
    assert [event.value for event in ear.of(ReadingContradicted)] == [("22",)]


def test_a_contradiction_is_told_even_where_other_damage_came_first() -> None:
    ear = after(*GAME.lines(), GAME.line(4), status(5, 17, "22"))
    assert [event.value for event in ear.of(ReadingContradicted)] == [("22",)]


def test_a_bare_number_without_its_status_line_expires() -> None:
    """One that no status line follows is a stray; the number then needs three status lines."""
    game = Game(bare=False)
    ear = after(*game.lines("234"), "23", *[game.line(4)] * 4, game.line(5), game.line(5))
    assert ear.numbers == []
    assert ear.hear(game.line(5)).numbers == ["23"]


def test_a_bare_number_older_than_its_limit_is_no_witness_of_a_late_status_line() -> None:
    game = Game(bare=False)
    ear = after(*game.lines("234"), "23").hear(game.line(5), every_ms=3 * PERIOD_MS + 1)
    assert ear.numbers == []


@pytest.mark.parametrize("states", ["2", "23", ""])
def test_a_bare_number_out_of_place_is_damage(states: str) -> None:
    ear = after(*GAME.lines("2")).hear(*(GAME.line(int(s)) for s in states), "8")
    ear = after(*GAME.lines(states), " 8")
    assert ear.protocol.counters["bare-misplaced"] == 1
    assert ear.numbers == []


def test_state_5_without_a_number_is_no_number() -> None:
    ear = after(*GAME.lines("234"), *[status(5, 17, "")] * 5, status(2, 18, ""))
    assert ear.numbers == []
    assert Defect.UNCONFIRMED in ear.facts.defects


@pytest.mark.parametrize("closing", [status(6, 17, "23"), status(2, 18, "23"), status(1, 17, "23")])
def test_a_number_shown_once_only_is_unconfirmed(closing: str) -> None:
    ear = after(*GAME.lines("234"), GAME.line(5), closing, closing)
    assert ear.numbers == []
    (ended,) = ear.of(GameEnded)
    assert ended.facts.defects


# --- damage, and the number of the game before -----------------------------------------------------

AGAIN = Game(pocket="8", before="8", bare=False)
"""One flipped bit makes a 5 of a 4, which still shows the number of the game before."""


@pytest.mark.parametrize("damage", ["00;0", "*X;4;0", "37", "*X;4;017;23;0;170;0*X;4;0", "4", "*u OK\x00"])
def test_after_damage_the_number_of_the_game_before_needs_three_witnesses(damage: str) -> None:
    ear = after(*AGAIN.lines("23"), damage, *AGAIN.lines("4"), AGAIN.line(5), AGAIN.line(5))
    assert ear.numbers == []
    assert ear.hear(AGAIN.line(5)).numbers == ["8"]


def test_after_noise_the_number_of_the_game_before_needs_three_witnesses() -> None:
    ear = after(*AGAIN.lines("23")).noise().hear(*AGAIN.lines("4"), pocket_text("8"), AGAIN.line(5))
    assert ear.numbers == []
    assert ear.hear(AGAIN.line(5)).numbers == ["8"]


def test_without_damage_the_number_of_the_game_before_needs_two_witnesses() -> None:
    ear = after(*AGAIN.lines("234"), AGAIN.line(5))
    assert ear.numbers == []
    assert ear.hear(AGAIN.line(5)).numbers == ["8"]


def test_after_damage_another_number_needs_two_witnesses() -> None:
    ear = after(*GAME.lines("23")).noise().hear("00;0", *GAME.lines("4"), GAME.line(5))
    assert ear.numbers == []
    assert ear.hear(GAME.line(5)).numbers == ["23"]


@pytest.mark.parametrize("text", ["AT", "AT+GCAP", "*X", "*V", "OK", "*bn  7", "hello world"])
def test_foreign_text_and_echoes_are_no_damage(text: str) -> None:
    lines = [line for said in AGAIN.lines("234") for line in (text, said)]
    assert after(*lines, text, AGAIN.line(5), text, AGAIN.line(5)).numbers == ["8"]


def test_noise_before_a_whole_status_line_takes_nothing_from_it() -> None:
    """The device document: parse from the last `*X;` of a line."""
    ear = after(*Game(bare=False).lines("234"))
    for _ in range(2):
        ear.quiet(PERIOD_MS).noise(b"\xff\x00*u OK" + GAME.line(5).encode())
    assert ear.numbers == ["23"]
    assert ear.protocol.counters["begun-again"] == 2


def test_noise_after_a_status_line_makes_it_none() -> None:
    ear = after(*Game(bare=False).lines("234"))
    for _ in range(3):
        ear.quiet(PERIOD_MS).noise(GAME.line(5).encode() + b"\x00")
    assert ear.numbers == []


def test_b10_old_frames_in_a_burst_give_no_number() -> None:
    """A buffer that filled before we came: a whole game within a few milliseconds."""
    ear = after(*GAME.lines("2"))
    ear.hear(*GAME.lines("34"), pocket_text("23"), *GAME.lines("5"), every_ms=1)
    assert ear.numbers == []
    assert Defect.STALE_FRAMES in ear.of(DrawUpdate)[-1].facts.defects


def test_damage_between_two_games_is_damage_of_the_second() -> None:
    first = Game(bare=False)
    second = first.next("23")
    ear = after(*first.lines()).noise().hear(*second.lines("234"), second.line(5), second.line(5))
    assert ear.numbers == ["23"]
    assert ear.hear(second.line(5)).numbers == ["23", "23"]


def test_damage_of_one_game_is_not_that_of_the_next() -> None:
    first = Game(bare=False)
    second = first.next("23")
    ear = after(*first.lines("23")).noise().hear(*first.lines("45"), *second.lines("234"))
    assert ear.hear(second.line(5), second.line(5)).numbers == ["23", "23"]


def test_a_status_line_that_began_inside_another_line_is_damage() -> None:
    ear = after(*AGAIN.lines("23"))
    ear.hear("*X;4;01" + AGAIN.line(4), *AGAIN.lines("4"), pocket_text("8"), AGAIN.line(5))
    assert ear.numbers == []
    assert ear.hear(AGAIN.line(5)).numbers == ["8"]


@pytest.mark.parametrize(
    "reply", ["*u OK", "*P NO", "*) NO", "*  NO", "*T m 2.0", "*Y;1;123", "*F 22", "bn 17"]
)
def test_replies_to_another_console_are_no_damage(reply: str) -> None:
    lines = [line for said in AGAIN.lines("234") for line in (said, reply)]
    assert after(*lines, AGAIN.line(5), AGAIN.line(5)).numbers == ["8"]


def test_a_state_4_line_heard_twice_as_5_on_a_damaged_line_is_no_number() -> None:
    flipped = GAME.line(4).replace("*X;4", "*X;5")
    ear = after(*GAME.lines("23")).noise()
    ear.hear(*GAME.lines("4"), flipped, flipped, *GAME.lines("45"), status(2, 18, "23"))
    assert ear.numbers == []


def test_a_status_line_heard_twice_is_one_witness() -> None:
    ear = after(*Game(bare=False).lines("234"), GAME.line(5)).hear(GAME.line(5), every_ms=PERIOD_MS / 4 - 1)
    assert ear.numbers == []
    assert ear.hear(GAME.line(5), every_ms=PERIOD_MS / 4).numbers == ["23"]


def test_in_a_burst_after_a_stall_the_bare_number_confirms_the_first_line() -> None:
    ear = after(*GAME.lines("234")).hear(pocket_text("23"), *[GAME.line(5)] * 5, every_ms=0)
    assert ear.numbers == ["23"]


# --- the path --------------------------------------------------------------------------------------


def test_state_7_belongs_to_no_more_bets() -> None:
    seven = GAME.line(7)
    ear = after(*GAME.lines("234"), seven, seven, GAME.line(4), seven, *GAME.lines("5"))
    assert ear.numbers == ["23"]
    assert len(ear.of(BetsClosed)) == 1


def test_state_7_before_no_more_bets_is_a_jump() -> None:
    ear = after(*GAME.lines("23"), GAME.line(7), *GAME.lines("45"), status(2, 18, "23"))
    assert ear.numbers == []
    assert Defect.ILLEGAL_TRANSITION in ear.facts.defects


@pytest.mark.parametrize("path", ["24", "25", "245", "235", "2343", "23435", "23453", "2354"])
def test_a_jump_means_lost_lines(path: str) -> None:
    ear = after(*(GAME.line(int(state)) for state in path), status(2, 18, "23"))
    assert ear.numbers == []
    assert Defect.ILLEGAL_TRANSITION in ear.facts.defects


@pytest.mark.parametrize("back", ["32", "42", "31", "41", "72", "71"])
def test_back_to_the_bets_without_a_number_ends_the_game(back: str) -> None:
    path = "2345"[: "234".index(back[0].replace("7", "4")) + 1] + ("7" if back[0] == "7" else "")
    ear = after(*(GAME.line(int(state)) for state in path + back[1]))
    (ended,) = ear.of(GameEnded)
    assert ended.ending is Ending.SUPERSEDED
    assert Defect.ILLEGAL_TRANSITION in ended.facts.defects


@pytest.mark.parametrize("state", [2, 3, 4, 5])
def test_a_game_joined_in_any_state_has_no_number(state: int) -> None:
    ear = Ear().open().hear(*GAME.lines("2345"[state - 2 :]))
    assert ear.numbers == []
    assert ear.joined == ["017"]
    assert ear.hear(*GAME.next("5").lines()).numbers == ["5"]


def test_the_first_state_1_is_before_a_fresh_game() -> None:
    assert Ear().open().hear(status(1, 17, "8"), *GAME.lines()).numbers == ["23"]


def test_old_lines_after_a_reopened_port_are_not_taken_as_fresh() -> None:
    """B10: the buffer of a reopened port may hold the end of a game."""
    ear = Ear().open_idle().hear(*GAME.lines("234")).lose().open()
    assert ear.hear(*GAME.lines("45"), every_ms=0).numbers == []


def test_games_of_different_sessions_have_different_names() -> None:
    ear = Ear().open_idle().hear(*GAME.lines()).lose().quiet(5000).open_idle().hear(*GAME.lines())
    first, second = (reading.game for reading in ear.of(Reading))
    assert first != second


# --- silence ---------------------------------------------------------------------------------------

PATHS = {"2-3": "2", "3-3": "23", "3-4": "23", "4-4": "234", "4-5": "234"}


@pytest.mark.parametrize("stretch", PATHS)
def test_silence_up_to_the_limit_is_no_gap(stretch: str) -> None:
    game = Game(bare=False)
    before = game.lines(PATHS[stretch])
    ear = after(*before).hear(game.line(int(stretch[-1])), every_ms=SILENCE_MS)
    ear.hear(*[game.line(s) for s in (3, 4, 5, 5) if s >= int(stretch[-1])])
    assert ear.numbers == ["23"]


@pytest.mark.parametrize("stretch", PATHS)
def test_silence_over_the_limit_is_a_gap(stretch: str) -> None:
    game = Game(bare=False)
    ear = after(*game.lines(PATHS[stretch])).hear(game.line(int(stretch[-1])), every_ms=SILENCE_MS + 0.001)
    ear.hear(*[game.line(s) for s in (3, 4, 5, 5) if s >= int(stretch[-1])], status(2, 18, "23"))
    assert ear.numbers == []
    assert Defect.DATA_GAP in ear.facts.defects


def test_a_stall_while_bets_are_open_is_no_gap() -> None:
    ear = after(*GAME.lines("2")).quiet(60_000).hear(*GAME.lines("2"), every_ms=0)
    assert ear.hear(*GAME.lines("345")).numbers == ["23"]


def test_command_replies_do_not_fill_a_silence_of_status_lines() -> None:
    ear = after(*GAME.lines("23"))
    for _ in range(5):
        ear.quiet(PERIOD_MS).hear("*u OK")
    assert ear.hear(*GAME.lines("45")).numbers == []


def test_a_number_confirmed_after_a_silence_in_state_5_counts() -> None:
    """The path ends with the first state-5 line; the counter shows that the second is of the same game."""
    game = Game(bare=False)
    assert after(*game.lines("234"), game.line(5)).quiet(10_000).hear(game.line(5)).numbers == ["23"]


# --- the counter -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "first"), [(256, 1), (255, 1), (255, 0), (255, 256)])
def test_the_counter_wraps(last: int, first: int) -> None:
    ear = after(*Game(last, "5").lines(), *Game(first, "23", "5").lines())
    assert ear.numbers == ["5", "23"]


def test_counter_zero_is_followed_by_one() -> None:
    assert after(*Game(0, "5").lines(), *Game(1, "23", "5").lines()).numbers == ["5", "23"]


def test_a_counter_that_went_round_names_its_games_anew() -> None:
    ear = after(*Game(255, "5").lines(), *Game(1, "6").lines(), *Game(255, "5").lines())
    assert len({reading.game for reading in ear.of(Reading)}) == 3


def test_the_counter_is_used_again_after_a_game_that_was_closed() -> None:
    again = [status(6, 17, "8"), status(1, 17, "8")]
    ear = after(*GAME.lines("234"), *again, *Game(pocket="30").lines())
    (ended,) = ear.of(GameEnded)
    assert ended.ending is Ending.SHUT_DOWN
    assert ended.facts.defects == ()
    assert ear.numbers == ["30"]
    assert [event.game.attempt for event in ear.of(GameStarted)] == [1, 2]


def test_the_counter_may_advance_later_in_state_2() -> None:
    late = status(2, 17, "23")
    ear = after(*GAME.lines(), late, late, *GAME.next("5").lines())
    assert ear.numbers == ["23", "5"]
    assert ear.joined == []


@pytest.mark.parametrize("bets", [[], [status(1, 17, "23")]])
def test_a_counter_that_never_advances_gives_no_number(bets: list[str]) -> None:
    ear = after(*GAME.lines(), *bets, *Game(pocket="5", before="23").lines())
    assert ear.numbers == ["23"]
    assert ear.joined == ["017"]
    assert ear.of(ReadingContradicted) == []
    assert ear.protocol.snapshot().attempt.facts.defects[0] is Defect.COUNTER_NOT_ADVANCED


@pytest.mark.parametrize("at_state", [1, 2])
def test_the_counter_may_advance_by_way_of_state_1(at_state: int) -> None:
    """5-1-2 with mode 1024; the document leaves open at which step the counter goes up."""
    pause = status(1, 17 if at_state == 2 else 18, "23")
    ear = after(*GAME.lines(), pause, pause, *GAME.next("5").lines())
    assert ear.numbers == ["23", "5"]
    assert ear.joined == []


@pytest.mark.parametrize("state", [2, 3, 4])
def test_a_counter_that_jumps_in_mid_game_ends_it(state: int) -> None:
    ear = after(*GAME.lines("234"[: state - 1]), *Game(18, "5").lines("2345"[state - 2 :]))
    assert "23" not in ear.numbers
    (ended,) = ear.of(GameEnded)[:1]
    assert Defect.ILLEGAL_TRANSITION in ended.facts.defects


def test_a_number_under_another_counter_is_not_of_this_game() -> None:
    assert after(*GAME.lines("234"), *Game(18, "23").lines("5")).numbers == []
