"""What a rule is, and the case that rules judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dollyd.daemon.core.events import Defect, Flag
from dollyd.daemon.core.state import Round, Setup, Table, WitnessState
from dollyd.wire.stamp import NS_PER_MS, Stamp


@dataclass(frozen=True, slots=True)
class Case:
    """A table with a round in progress, at one moment."""

    setup: Setup
    table: Table
    now: Stamp
    defects: frozenset[Defect] = field(init=False)
    """Every defect of the evidence; gathered once, for nearly every rule asks."""
    flags: frozenset[Flag] = field(init=False)
    """Every flag that a witness has shown."""

    def __post_init__(self) -> None:
        witnesses = self.round.witnesses
        gathered = frozenset(defect for w in witnesses for defect in w.facts.defects)
        object.__setattr__(self, "defects", gathered)
        object.__setattr__(self, "flags", frozenset(flag for w in witnesses for flag in w.facts.flags))

    @property
    def round(self) -> Round:
        """The round in progress."""
        return self.table.round or Round(0)

    def since_ns(self, then: Stamp | None) -> int:
        """Monotonic time since a fact; -1 where it has not happened."""
        return self.now.mono_ns - then.mono_ns if then else -1

    def overdue(self, then: Stamp | None, limit_ms: int) -> bool:
        """Whether a fact lies back for at least so long."""
        return then is not None and self.since_ns(then) >= limit_ms * NS_PER_MS

    def any(self, test: Callable[[WitnessState], bool]) -> bool:
        """Whether a witness fits."""
        return any(test(witness) for witness in self.round.witnesses)

    def flagged(self, *flags: Flag) -> bool:
        """Whether a witness has shown one of these flags."""
        return not self.flags.isdisjoint(flags)

    @property
    def draw_awaited(self) -> Stamp | None:
        """Since when the draw must come to its end, None while it may take its time.

        No more bets, or the rejection of a throw after them. Without them the start of the draw, but not of
        dice that are shaken before bets are taken: those stay covered until bets are closed.
        """
        current = self.round
        if current.bets_closed is None:
            covered = self.setup.rules.nmb_before_draw == "reversed"
            return None if covered else current.draw_started
        closed, rejected = current.bets_closed.at, current.throw.awaited
        return rejected if rejected and rejected.mono_ns > closed.mono_ns else closed

    @property
    def values(self) -> frozenset[tuple[str, ...]]:
        """Every reading of this draw; more than one is a disagreement."""
        return frozenset(w.value for w in self.round.witnesses if w.value)

    @property
    def all_read(self) -> bool:
        """Whether every device that reads the outcome has read it."""
        return {w.game.device for w in self.round.witnesses if w.value} >= set(self.setup.witnesses)

    @property
    def all_heard(self) -> bool:
        """Whether every witness has said all that it can say, supporting ones included."""
        observed = {w.game.device for w in self.round.witnesses if w.observed}
        return self.all_read and observed >= set(self.setup.supporters)

    @property
    def ball_directions(self) -> frozenset[str]:
        """Directions of the ball that witnesses saw; more than one is a disagreement."""
        return frozenset(w.facts.ball_direction for w in self.round.witnesses) - {""}

    @property
    def wheel_directions(self) -> frozenset[str]:
        """Directions of the wheel that witnesses saw; more than one is a disagreement."""
        return frozenset(w.facts.wheel_direction for w in self.round.witnesses) - {""}

    @property
    def turns_disagree(self) -> bool:
        """Whether two devices counted the ball's turns, without a loss, and are more than one turn apart.

        One turn is where their sensors stand.
        """
        told = [w.facts for w in self.round.witnesses if w.facts.ball_turns_x100 is not None]
        turns = [facts.ball_turns_x100 or 0 for facts in told if not facts.turns_lower_bound]
        return bool(turns) and max(turns) - min(turns) > 100

    @property
    def wheel_direction(self) -> str:
        """Direction of the wheel on which all agree, empty where none saw it."""
        return min(self.wheel_directions) if len(self.wheel_directions) == 1 else ""

    @property
    def spin_direction(self) -> str:
        """The direction that the next spin is compared with, empty where it is not certain to be the last."""
        return "" if self.round.followed or self.defects else self.wheel_direction


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a table. `id` is stable and stands in records; `clause` is the text that it carries out."""

    id: str
    clause: str
    text: str
    applies: Callable[[Case], bool]
    inspect: bool = False
    """Something must be inspected before the next round."""


def first(rules: tuple[Rule, ...], case: Case) -> Rule | None:
    """The first rule of a table that applies."""
    return next((rule for rule in rules if rule.applies(case)), None)
