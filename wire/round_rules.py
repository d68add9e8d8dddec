"""The rules that the records of one chain keep, round by round (design section 4)."""

from __future__ import annotations

from dollyd.wire.record import FINAL_KINDS, Kind

_OF_AN_OPEN_ROUND = frozenset({Kind.BETS_CLOSED, Kind.THROW_REJECTED, Kind.UNRESOLVED})


class RoundRules:
    """Takes the records of a chain in their order and says which one breaks a rule, and which.

    Of a chain that is not given `from_start`, the first record that names a round tells where play stands.
    """

    def __init__(self, *, from_start: bool = True) -> None:
        self.known = from_start
        """Whether it is known where play stands."""
        self.last_round = 0
        """The highest round number used."""
        self.open_round = 0
        """The round that has no final record yet, 0 for none."""
        self.unresolved = False
        """Nothing but its closing by people may follow in the open round."""

    @classmethod
    def at(cls, last_round: int, open_round: int, *, known: bool, unresolved: bool) -> RoundRules:
        """Where play stands."""
        rules = cls(from_start=known)
        rules.last_round, rules.open_round, rules.unresolved = last_round, open_round, unresolved
        return rules

    def take(self, kind: Kind, number: int, mode: str = "") -> str:
        """Take a record of round `number` (0: of none); `mode` of a result. Gives what is wrong, or ''."""
        if not self.known and kind is not Kind.ROUND:
            self._learn(kind, number)
            return ""
        self.known = True
        match kind:
            case Kind.ROUND:
                return self._opened(number)
            case Kind.RESULT | Kind.VOID:
                return self._ended(kind, number, mode)
            case Kind.CORRECTION if not 0 < number <= self.last_round or number == self.open_round:
                return f"corrects round {number}, which has no final record"
            case _ if kind in _OF_AN_OPEN_ROUND:
                return self._went_on(kind, number)
            case _ if not 0 <= number <= self.last_round:
                return f"names round {number}, which was never opened"
        return ""

    def _learn(self, kind: Kind, number: int) -> None:
        """Where play stands when a chain is entered in its middle: a correction tells nothing of it."""
        self.last_round = max(number, self.last_round)
        if kind in _OF_AN_OPEN_ROUND:
            self.open_round, self.unresolved = number, kind is Kind.UNRESOLVED
        self.known = kind in _OF_AN_OPEN_ROUND or kind in FINAL_KINDS

    def _opened(self, number: int) -> str:
        why = ""
        if number <= self.last_round:
            why = f"round number {number} is used again; the last one was {self.last_round}"
        elif self.open_round:
            why = f"round {number} is opened while round {self.open_round} has no final record"
        self.last_round = max(number, self.last_round)
        self.open_round, self.unresolved = number, False
        return why

    def _ended(self, kind: Kind, number: int, mode: str) -> str:
        if number != self.open_round or number == 0:
            known = 0 < number <= self.last_round
            return f"second final record of round {number}" if known else f"round {number} was never opened"
        automatic = self.unresolved and kind is Kind.RESULT and mode == "auto"
        self.open_round, self.unresolved = 0, False
        return f"automatic result of round {number}, which is unresolved" if automatic else ""

    def _went_on(self, kind: Kind, number: int) -> str:
        if number != self.open_round or number == 0:
            return f"{kind} of round {number}, which is not open"
        if self.unresolved:
            return f"{kind} of round {number}, which is unresolved and can only be closed"
        self.unresolved = kind is Kind.UNRESOLVED
        return ""
