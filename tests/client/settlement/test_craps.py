"""Place bets of craps: the edge of each by solving its resolution, cases of the rulebook, commission."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.house_edge import edge
from tests.support.settling import answer, bet, bets_on, net, shipped, values, void_round

from dollyd.client.settlement.craps import NUMBERS, OFFERED, commission
from dollyd.client.settlement.settle import carried, settle_bet
from dollyd.client.settlement.spec import Answer, Bet, SettlementError, Verdict, ratio, rounded
from dollyd.daemon.core.games.craps import CRAPS
from dollyd.daemon.core.games.spec import Drawn, Memory, Value

COME_OUT: Memory = ()
POINT_8: Memory = (("point", "8"),)
PHASES: tuple[Memory, ...] = (COME_OUT, *((("point", number),) for number in NUMBERS))
STAKE = 6_000
"""Hundredths; all odds, and all commissions, give whole hundredths of it."""
UNDECIDED = (Verdict.STAYS, Verdict.NOT_WORKING)

# numbers; right resolved, right a roll; buy a stake, an outlay; lay a stake, an outlay
ORACLE = {
    ("4", "10"): "1/15 1/60  1/20 1/21  1/40 1/41",
    ("5", "9"): "  1/25 1/90  1/20 1/21  1/30 1/31",
    ("6", "8"): "  1/66 1/216 1/20 1/21  1/24 1/25",
}
EDGES = {number: list(map(Fraction, row.split())) for pair, row in ORACLE.items() for number in pair}


def roll(total: int) -> Value:
    """A throw with this sum."""
    return next(throw for throw in values("craps") if sum(map(int, throw)) == total)


def fee(placed: Bet) -> int:
    return commission(placed, shipped("craps").variant, "half-up")


def solved(rows: list[list[Fraction]]) -> list[Fraction]:
    """The x of a regular system, each row of which is its coefficients and the right side."""
    size = len(rows)
    for column in range(size):
        pivot = next(row for row in range(column, size) if rows[row][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [cell / rows[column][column] for cell in rows[column]]
        for row in set(range(size)) - {column}:
            factor = rows[row][column]
            rows[row] = [cell - factor * own for cell, own in zip(rows[row], rows[column], strict=True)]
    return [row[-1] for row in rows]


def gains_until_resolved(placed: Bet) -> dict[Memory, Fraction]:
    """The mean gain of a bet that stays until it is decided, before commission, by the phase it is placed in.

    The gain in a phase is the mean over 36 rolls of what is decided now and of the gain in the next phase.
    """
    rows = []
    for phase in PHASES:
        row = [Fraction(phase == other) for other in PHASES] + [Fraction(0)]
        for value in values("craps"):
            settled = answer(placed, value, phase)
            if settled.verdict in UNDECIDED:
                after = CRAPS.after(CRAPS.outcome(Drawn(value, None, None, phase)))
                row[PHASES.index(after)] -= Fraction(1, 36)
            else:
                row[-1] += Fraction(settled.paid - placed.stake, 36)
        rows.append(row)
    return dict(zip(PHASES, solved(rows), strict=True))


# --- house edge ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("working", [True, False])
def test_right_per_resolved_bet(number: str, working: bool) -> None:
    placed = bet("craps", "right", number, stake=STAKE, working=working)
    assert fee(placed) == 0
    for phase, gain in gains_until_resolved(placed).items():
        assert -gain / STAKE == EDGES[number][0], phase


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("phase", PHASES)
def test_right_per_roll_while_working(number: str, phase: Memory) -> None:
    placed = bet("craps", "right", number, stake=STAKE, working=True)

    def gain(value: tuple[str, ...]) -> Fraction:
        settled = answer(placed, value, phase)
        return Fraction(0 if settled.verdict in UNDECIDED else settled.paid - STAKE, STAKE)

    assert edge(gain, values("craps")) == EDGES[number][1]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("kind", "column"), [("buy", 2), ("lay", 4)])
def test_buy_and_lay_with_commission_per_stake_and_per_outlay(number: str, kind: str, column: int) -> None:
    placed = bet("craps", kind, number, stake=STAKE)
    for phase, gain in gains_until_resolved(placed).items():
        lost = fee(placed) - gain
        assert lost / STAKE == EDGES[number][column], phase
        assert lost / (STAKE + fee(placed)) == EDGES[number][column + 1], phase


# --- cases of the rulebook -------------------------------------------------------------------------------


def test_t52_right_on_6_pays_7_to_6() -> None:
    assert net(bet("craps", "right", "6", stake=60_00), roll(6), POINT_8) == 70_00


def test_t53_buy_on_4_pays_double_less_the_commission() -> None:
    placed = bet("craps", "buy", "4", stake=100_00)
    gain = net(placed, roll(4), POINT_8)
    assert (gain, fee(placed), gain - fee(placed)) == (200_00, 5_00, 195_00)


def test_t54_lay_on_4_wins_on_a_seven_less_the_commission() -> None:
    placed = bet("craps", "lay", "4", stake=60_00)
    gain = net(placed, roll(7), POINT_8)
    assert (gain, fee(placed), gain - fee(placed)) == (30_00, 1_50, 28_50)


@pytest.mark.parametrize("kind", ["right", "buy"])
@pytest.mark.parametrize("total", [4, 7])
def test_t55_a_bet_that_is_off_on_the_come_out_stays(kind: str, total: int) -> None:
    off = answer(bet("craps", kind, "4", stake=STAKE), roll(total), COME_OUT)
    assert (off.verdict, off.paid) == (Verdict.NOT_WORKING, 0)


def test_t55_the_player_may_say_that_it_works() -> None:
    placed = bet("craps", "right", "4", stake=STAKE, working=True)
    assert net(placed, roll(4), COME_OUT) == STAKE * 9 // 5
    assert net(placed, roll(7), COME_OUT) == -STAKE


def test_t56_lay_works_on_the_come_out() -> None:
    placed = bet("craps", "lay", "6", stake=60_00)
    assert net(placed, roll(6), COME_OUT) == -60_00
    assert net(placed, roll(7), COME_OUT) == 50_00


@pytest.mark.parametrize("kind", OFFERED)
def test_t57_an_undecided_roll_leaves_the_stake(kind: str) -> None:
    undecided = answer(bet("craps", kind, "6", stake=STAKE), roll(11), POINT_8)
    assert (undecided.verdict, undecided.paid) == (Verdict.STAYS, 0)


# --- a bet over several rolls ----------------------------------------------------------------------------


def test_the_excess_is_returned_once_and_limits_count_when_the_stake_is_placed() -> None:
    placed = bet("craps", "right", "6", stake=90_00)
    first = answer(placed, roll(11), POINT_8, minimum=10_00, maximum=60_00)
    assert (first.verdict, first.invalid, first.state) == (Verdict.STAYS, 30_00, {"rolls": 1})
    waiting = carried(placed, first)
    assert waiting is not None
    second = answer(waiting, roll(12), COME_OUT, minimum=70_00, maximum=50_00)
    assert (second.verdict, second.paid, second.state) == (Verdict.NOT_WORKING, 0, {"rolls": 2})
    still_waiting = carried(waiting, second)
    assert still_waiting is not None
    assert answer(still_waiting, roll(6), POINT_8, maximum=50_00).paid == 60_00 + 70_00


@pytest.mark.parametrize(
    ("policy", "verdict", "paid"),
    [
        ("unstated", Verdict.STAYS, 0),
        ("carried", Verdict.STAYS, 0),
        ("player_choice", Verdict.STAYS, 0),
        ("returned", Verdict.RETURNED, STAKE),
    ],
)
def test_a_void_roll_decides_nothing(policy: str, verdict: Verdict, paid: int) -> None:
    placed = bet("craps", "lay", "6", stake=STAKE, state={"rolls": 3})
    void = settle_bet(placed, void_round("craps", policy))
    assert (void.verdict, void.paid) == (verdict, paid)
    assert void.state == ({"rolls": 3} if verdict is Verdict.STAYS else {})


# --- rounding and refusals -------------------------------------------------------------------------------


def test_wins_and_commission_are_rounded_half_up() -> None:
    assert net(bet("craps", "buy", "5", stake=1), roll(5), POINT_8) == 2  # 1.5
    assert net(bet("craps", "right", "5", stake=1), roll(5), POINT_8) == 1  # 1.4
    assert fee(bet("craps", "buy", "5", stake=10)) == 1  # 0.5
    assert fee(bet("craps", "buy", "5", stake=9)) == 0  # 0.45
    assert commission(bet("craps", "buy", "5", stake=10), shipped("craps").variant, "down") == 0


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        (bet("craps", "right", "7"), "right is bet on one of 4, 5, 6, 8, 9, 10, not on 7"),
        (bet("craps", "lay"), "not on nothing"),
        (bet("craps", "buy", "4", "5"), "not on 4, 5"),
        (bet("craps", "pass"), "craps has no bet 'pass', only right, buy, lay"),
    ],
)
def test_a_bet_that_does_not_exist_is_refused_with_the_reason(placed: Bet, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        answer(placed, roll(4))


BETS = st.builds(
    lambda like, stake, working: bet("craps", like.kind, *like.selection, stake=stake, working=working),
    st.sampled_from(bets_on("craps", OFFERED)),
    st.integers(1, 10**9),
    st.booleans(),
)


@given(BETS, st.sampled_from(values("craps")), st.sampled_from(PHASES))
def test_never_more_is_paid_than_stake_times_odds_plus_one_rounded(
    placed: Bet, value: tuple[str, ...], phase: Memory
) -> None:
    odds = ratio(shipped("craps").variant.odds["_".join((placed.kind, *placed.selection))])
    assert answer(placed, value, phase).paid <= rounded(placed.stake * (odds + 1), "half-up")


@given(BETS, st.sampled_from(values("craps")), st.sampled_from(PHASES))
def test_an_undecided_roll_is_never_void(placed: Bet, value: tuple[str, ...], phase: Memory) -> None:
    settled: Answer = answer(placed, value, phase)
    if sum(map(int, value)) not in (7, int(placed.selection[0])):
        assert settled.verdict in UNDECIDED
        assert settled.paid == 0
    assert settled.verdict is not Verdict.RETURNED
