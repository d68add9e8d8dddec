"""What a bet is, what becomes of it, and what a game must tell to settle it. Pure: values in, values out.

Money is integer minor units. Odds are exact fractions from the rulebook whose digest is in the record. Money
is rounded in one place, `rounded`, by the policy that the rulebook names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

from dollyd.daemon.core.rulebook import PrisonLoss

State: TypeAlias = Mapping[str, str | int]
"""What a bet carries from round to round, as JSON holds it; empty at first."""


MONEY_MAX = 10**15
"""Minor units. A stake or a limit beyond it is a mistake, and with any odds would leave 64 bits."""


class SettlementError(Exception):
    """A bet that cannot be, or a record that settles nothing; the message says why."""


class Verdict(StrEnum):
    """What happens to the stake."""

    WINS = "wins"
    """The stake comes back with a profit."""
    LOSES = "loses"
    HALF_LOST = "half-lost"
    """One half is lost, the other comes back."""
    PART_RETURNED = "part-returned"
    """A part of the original stake comes back, the rest is lost (the quarter of variant D)."""
    RETURNED = "returned"
    """The stake comes back without profit."""
    STAYS = "stays"
    """Nothing is decided: the stake stays, with its new state."""
    NOT_WORKING = "not-working"
    """The bet is off in this round; the stake stays."""


class Choice(StrEnum):
    """What a player chooses where the rules let him."""

    NONE = "none"
    HALF = "half"
    PRISON = "prison"
    QUARTER = "quarter"
    STAY = "stay"


@dataclass(frozen=True, slots=True)
class Bet:
    """One stake on one field of the layout. `stake` in minor units; `selection` by the game's own names."""

    id: str
    game: str
    kind: str
    selection: tuple[str, ...]
    stake: int
    state: State = field(default_factory=dict)
    choice: Choice = Choice.NONE
    """For the round to come: what to do on zero (variant D BOTH)."""
    working: bool = False
    """Craps: the player has said that the bet works on the come-out roll."""

    def __post_init__(self) -> None:
        """Raises `SettlementError` for what is no bet at all, whatever the game."""
        if type(self.stake) is not int:
            raise SettlementError(f"bet {self.id}: a stake of {self.stake!r} is no whole number")
        if not 0 < self.stake <= MONEY_MAX:
            raise SettlementError(f"bet {self.id}: a stake of {self.stake} is no stake")
        others: tuple[Any, ...] = (self.id, self.game, self.kind, self.selection, self.state)
        *names, selection, state = others
        if not all(isinstance(name, str) for name in names):
            raise SettlementError(f"bet {self.id!r}: id, game and kind are texts")
        if type(selection) is not tuple or not all(isinstance(one, str) for one in selection):
            raise SettlementError(f"bet {self.id}: the selection {selection!r} is not a tuple of texts")
        if not isinstance(state, Mapping) or not all(
            isinstance(name, str) and type(value) in (str, int) for name, value in state.items()
        ):
            raise SettlementError(f"bet {self.id}: the state {state!r} is none")


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a bet after one record. All money in minor units.

    `profit`: won on top of the stake, 0 where nothing was won. `returned`: of the stake in play, what goes
    back to the player. `invalid`: the part above the table's maximum, which was never in play and goes back
    too. `state`: of a stake that stays.
    """

    bet: str
    verdict: Verdict
    profit: int = 0
    returned: int = 0
    invalid: int = 0
    state: State = field(default_factory=dict)

    @property
    def paid(self) -> int:
        """All that goes to the player now."""
        return self.profit + self.returned + self.invalid


@dataclass(frozen=True, slots=True)
class Round:
    """What settlement needs of a verified record, with the rulebook that decided it.

    `outcome` is that of a result, empty for a void. `variant` is the game's own Struct of the rulebook's
    variant; `rounding` the rulebook's policy.
    """

    game: str
    variant_name: str
    variant: Any
    outcome: Mapping[str, Any]
    void: bool = False
    stake_policy: str = ""
    odds_table: int = 1
    zero_rule: str = ""
    minimum: int = 0
    maximum: int = 0
    """0 = not known (a void does not say it), nothing is cut."""
    quarter_odds: int = 0
    """Roulette: n to 1, a key of the whole rulebook. Offered only where the outcome has a `quarter`."""
    rounding: str = "down"
    prison_loss: PrisonLoss = "three_in_a_row"
    """Roulette: what loses an imprisoned stake among zeros, a key of the whole rulebook."""


Selection: TypeAlias = tuple[str, ...]

Rules: TypeAlias = Callable[[Bet, int, Round], Answer]
"""Settles one bet: the bet, the stake in play after the maximum, the round. Raises `SettlementError`."""


@dataclass(frozen=True, slots=True)
class GameBets:
    """One line of the table `BETS`: how a game's bets are checked and settled."""

    game: str
    offered: Callable[[Any], Mapping[str, tuple[Selection, ...]]]
    """Every bet of a variant: its selections by kind; one that is empty is bet without a selection."""
    check: Callable[[Bet, Any], None]
    """Refuses a selection that the layout does not have, with the reason. Arguments: bet, variant."""
    settle: Rules
    on_void: Rules
    """A void round: stakes as the profile says, imprisoned stakes stay."""


def rounded(amount: Fraction, rounding: str) -> int:
    """Money as it is paid: `down` to the minor unit (in the house's favour), or `half-up`."""
    if rounding == "half-up":
        return int((amount + Fraction(1, 2)).__floor__())
    return int(amount.__floor__())


def ratio(odds: int | str) -> Fraction:
    """Odds of a rulebook, `n` or `n:m`, as a fraction."""
    if isinstance(odds, int):
        return Fraction(odds)
    profit, _, stake = odds.partition(":")
    return Fraction(int(profit), int(stake or 1))


def check_offered(
    bet: Bet, offered: Mapping[str, tuple[str, ...]], odds: Mapping[str, int | str], key: Callable[[Bet], str]
) -> None:
    """Refuse a bet that the game does not have, or for which the rulebook gives no odds.

    `offered`: the selections of each kind of bet, of which one is named; empty where none is to be named.
    `key`: where the rulebook has the odds of a bet. Raises `SettlementError` with the reason.
    """
    if bet.kind not in offered:
        raise SettlementError(f"{bet.game} has no bet {bet.kind!r}, only {', '.join(offered)}")
    choices, selected = offered[bet.kind], ", ".join(bet.selection) or "nothing"
    if not choices and bet.selection:
        raise SettlementError(f"{bet.kind} is bet without a selection, not on {selected}")
    if choices and (len(bet.selection) != 1 or bet.selection[0] not in choices):
        raise SettlementError(f"{bet.kind} is bet on one of {', '.join(choices)}, not on {selected}")
    if key(bet) not in odds:
        raise SettlementError(f"the rulebook gives no odds for {' '.join((bet.kind, *bet.selection))}")


def with_odds(
    game: str,
    offered: Mapping[str, tuple[str, ...]],
    odds: Mapping[str, int | str],
    key: Callable[[Bet], str],
) -> dict[str, tuple[Selection, ...]]:
    """`offered` of games in which one selection is named or none: those for which there are odds."""
    all_of_them = {kind: tuple((one,) for one in choices) or ((),) for kind, choices in offered.items()}
    paid = {
        kind: tuple(one for one in selections if key(Bet("", game, kind, one, 1)) in odds)
        for kind, selections in all_of_them.items()
    }
    return {kind: selections for kind, selections in paid.items() if selections}


def wins(bet: Bet, stake: int, odds: Fraction, played: Round) -> Answer:
    """The stake comes back with its profit."""
    return Answer(bet.id, Verdict.WINS, profit=rounded(stake * odds, played.rounding), returned=stake)


def loses(bet: Bet) -> Answer:
    """All is lost."""
    return Answer(bet.id, Verdict.LOSES)


def half_lost(bet: Bet, stake: int, played: Round) -> Answer:
    """One half comes back."""
    return Answer(bet.id, Verdict.HALF_LOST, returned=rounded(Fraction(stake, 2), played.rounding))


def returned(bet: Bet, stake: int) -> Answer:
    """The stake comes back without profit."""
    return Answer(bet.id, Verdict.RETURNED, returned=stake)


def stays(bet: Bet, state: State) -> Answer:
    """Nothing is decided yet."""
    return Answer(bet.id, Verdict.STAYS, state=state)


def stakes_of_a_void_round(bet: Bet, stake: int, played: Round) -> Answer:
    """`on_void` of games whose bets live for one round: nobody wins or loses, the stake goes back.

    The profile says what players may do with it (`played.stake_policy`); where stakes are carried they stay.
    """
    return stays(bet, bet.state) if played.stake_policy == "carried" else returned(bet, stake)
