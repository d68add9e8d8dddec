"""En prison: the rulebook's sequences under their numbers, both readings, the choices of BOTH, voids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import layout, roulette

from dollyd.client.settlement.roulette import ROULETTE_BETS
from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.client.settlement.settle import carried, settle
from dollyd.client.settlement.spec import Answer, Bet, Choice, Round, SettlementError, Verdict
from dollyd.daemon.core.games.roulette import ROULETTE
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.rulebook import PrisonLoss

RED = Bet("1", "roulette", "even_money", ("red",), 100)
EVEN = replace(RED, selection=("even",))
VOID = "void"
OWN, OPPOSITE, ZERO = "1", "2", "0"  # as red sees them


def played(pocket: str, rule: str = "prison", loss: PrisonLoss = "three_in_a_row") -> Round:
    rules = roulette("D")
    if pocket == VOID:
        return Round("roulette", "D", rules, {}, void=True, stake_policy="player_choice", zero_rule=rule)
    outcome = ROULETTE.outcome(Drawn((pocket,), rules, layout(rules.layout), ()))
    return Round("roulette", "D", rules, outcome, zero_rule=rule, prison_loss=loss)


def answers(
    bet: Bet,
    pockets: str,
    rule: str = "prison",
    choices: tuple[Choice, ...] = (),
    loss: PrisonLoss = "three_in_a_row",
) -> list[Answer]:
    """The answers of a bet to rounds one after the other, its state kept as JSON in between.

    Nothing must come after the answer that ends the bet. `choices`: the player's, round by round.
    """
    given_answers: list[Answer] = []
    for number, pocket in enumerate(pockets.split()):
        assert all(answer.verdict is Verdict.STAYS for answer in given_answers)
        choice = choices[number] if number < len(choices) else Choice.NONE
        state = json.loads(json.dumps(dict(given_answers[-1].state))) if given_answers else {}
        settle = ROULETTE_BETS.on_void if pocket == VOID else ROULETTE_BETS.settle
        given_answers.append(
            settle(replace(bet, choice=choice, state=state), bet.stake, played(pocket, rule, loss))
        )
    return given_answers


def verdicts(bet: Bet, pockets: str, loss: PrisonLoss = "three_in_a_row") -> list[str]:
    return [answer.verdict.value for answer in answers(bet, pockets, loss=loss)]


FREED = Answer("1", Verdict.RETURNED, returned=100)
LOST = Answer("1", Verdict.LOSES)


def test_t9_own_chance_frees_without_profit() -> None:
    assert answers(RED, "0 1")[-1] == FREED


def test_t10_the_opposite_chance_loses() -> None:
    assert answers(RED, "0 2")[-1] == LOST


def test_t11_after_two_zeros_two_wins_free_and_not_earlier() -> None:
    given_answers = answers(RED, "0 0 1 1")
    assert [answer.verdict for answer in given_answers[:3]] == [Verdict.STAYS] * 3
    assert [answer.paid for answer in given_answers] == [0, 0, 0, 100]
    assert given_answers[-1] == FREED


def test_t12_the_second_win_is_missing() -> None:
    assert answers(RED, "0 0 1 2")[-1] == LOST


def test_t13_the_third_zero_in_a_row_loses() -> None:
    assert answers(RED, "0 0 0")[-1] == LOST


def test_t14_a_void_frees_nobody() -> None:
    zero, void, own = answers(RED, "0 void 1")
    assert (void.verdict, void.paid, void.state) == (Verdict.STAYS, 0, zero.state)
    assert own == FREED


def test_t15_zeros_around_a_void_are_two_in_a_row() -> None:
    given_answers = answers(RED, "0 void 0 1 1")
    assert given_answers[2].state == {"need": 2, "run": 2, "original": 100}
    assert given_answers[-1] == FREED


def test_t16_quarter_at_two_zeros() -> None:
    last = answers(RED, "0 0", "both", (Choice.PRISON, Choice.QUARTER))[-1]
    assert last == Answer("1", Verdict.PART_RETURNED, returned=25)


def test_t17_half_at_the_first_zero_ends_the_stake() -> None:
    (half,) = answers(RED, "0", "both", (Choice.HALF,))
    assert half == Answer("1", Verdict.HALF_LOST, returned=50)
    assert carried(RED, half) is None  # the next zero finds no stake


@pytest.mark.parametrize(("pocket", "last"), [("12", FREED), ("13", LOST)])
def test_t18_an_imprisoned_even(pocket: str, last: Answer) -> None:
    assert answers(EVEN, f"0 {pocket}")[-1] == last


@pytest.mark.parametrize(
    ("loss", "after_the_late_zeros"), [("three_in_a_row", "stays"), ("third_level", "loses")]
)
def test_prison_a_differs_at_the_second_late_zero_only(loss: PrisonLoss, after_the_late_zeros: str) -> None:
    assert verdicts(RED, "0 0 1 0", loss) == ["stays"] * 4
    assert verdicts(RED, "0 0 1 0 0", loss) == [*["stays"] * 4, after_the_late_zeros]
    assert verdicts(RED, "0 0 0", loss)[-1] == "loses"


def test_prison_b_after_a_late_zero_two_wins_are_needed_again() -> None:
    assert verdicts(RED, "0 0 1 0 1 1") == [*["stays"] * 5, "returned"]


def test_prison_c_the_quarter_is_offered_again_of_the_original_stake() -> None:
    stay, quarter = Choice.STAY, Choice.QUARTER
    choices = (Choice.PRISON, stay, Choice.NONE, Choice.NONE, quarter)
    given_answers = answers(RED, "0 0 1 0 0", "both", choices)
    assert given_answers[-1] == Answer("1", Verdict.PART_RETURNED, returned=25)


def test_the_quarter_is_offered_under_both_only() -> None:
    assert answers(RED, "0 0", "prison", (Choice.NONE, Choice.QUARTER))[-1].verdict is Verdict.STAYS


def test_two_zeros_ask_for_a_choice_under_both() -> None:
    with pytest.raises(SettlementError, match="quarter or stay"):
        answers(RED, "0 0", "both", (Choice.PRISON, Choice.PRISON))


@pytest.mark.parametrize(
    "state",
    [
        {"need": 3, "run": 1, "original": 100},
        {"need": 1, "run": 2, "original": 100},
        {"need": 1, "run": 1, "original": 0},
        {"need": 1, "run": 1},
        {"need": "1", "run": 1, "original": 100},
        {"need": 1, "run": 1, "original": 100, "point": 8},
    ],
)
def test_a_state_that_cannot_be_is_refused(state: dict[str, str | int]) -> None:
    with pytest.raises(SettlementError, match="no state of an imprisoned stake"):
        ROULETTE_BETS.settle(replace(RED, state=state), 100, played(OWN))


@given(
    st.lists(st.sampled_from([ZERO, OWN, OPPOSITE, VOID]), max_size=12),
    st.integers(1, 10**9),
    st.sampled_from(["three_in_a_row", "third_level"]),
)
def test_an_imprisoned_stake_never_brings_more_than_itself(
    tail: list[str], stake: int, loss: PrisonLoss
) -> None:
    answer = ROULETTE_BETS.settle(replace(RED, stake=stake), stake, played(ZERO))
    for pocket in tail:
        if answer.verdict is not Verdict.STAYS:
            break
        settle = ROULETTE_BETS.on_void if pocket == VOID else ROULETTE_BETS.settle
        answer = settle(replace(RED, stake=stake, state=answer.state), stake, played(pocket, loss=loss))
    assert answer.paid in (0, stake)
    assert (answer.paid == stake) is (answer.verdict is Verdict.RETURNED)


@pytest.mark.parametrize(
    ("reading", "verdict"), [("", "stays"), ("three_in_a_row", "stays"), ("third_level", "loses")]
)
def test_prison_a_the_rulebook_says_which_reading_counts(tmp_path: Path, reading: str, verdict: str) -> None:
    text = (Path(__file__).parents[3] / "config/rulebooks/fi-ray-2013-roulette.toml").read_text("utf-8")
    file = tmp_path / "own.toml"
    file.write_text((f'prison_loss = "{reading}"\n' if reading else "") + text)
    book = load_rulebook(str(file))
    late: Any = {"need": 2, "run": 1, "original": 100}  # after zero, zero, own chance, zero
    bet = {"game": "roulette", "variant": "D", "zero_rule": "prison"}
    setting = bet | {"rulebook": {"id": book.id, "digest": book.digest}}
    outcome = played(ZERO).outcome
    payload = {"v": 1, "kind": "result", "body": {"setting": setting, "outcome": outcome}}
    (answer,) = settle(payload, [replace(RED, state=late)], book)
    assert answer.verdict == verdict
