"""The rules that end a round without a result, as two ordered tables of pure functions.

`VOID_RULES` say that the round does not count; each names its clause. `DOUBT_RULES` say that we cannot know;
the round is unresolved. Void rules that rest on something positively seen come first; those that conclude
from absence apply only where the evidence has no defect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dollyd.daemon.core.events import Defect, Ending, Flag, TurnsBasis
from dollyd.daemon.core.stamp import NS_PER_MS, Stamp
from dollyd.daemon.core.state import Betting, Draw, Round, Setup, WitnessState


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules judge: a round at one moment."""

    setup: Setup
    round: Round
    now: Stamp

    def since_ns(self, then: Stamp | None) -> int:
        """Monotonic time since a fact; -1 where it has not happened."""
        return self.now.mono_ns - then.mono_ns if then else -1

    def any(self, test: Callable[[WitnessState], bool]) -> bool:
        """Whether a witness fits."""
        return any(test(witness) for witness in self.round.witnesses)

    def flagged(self, flag: Flag) -> bool:
        """Whether a witness has shown this flag."""
        return self.any(lambda w: flag in w.facts.flags)

    @property
    def defects(self) -> tuple[Defect, ...]:
        """Every defect of the evidence."""
        return tuple(defect for w in self.round.witnesses for defect in w.facts.defects)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a table. `id` is stable and stands in records; `clause` is the text that it carries out."""

    id: str
    clause: str
    text: str
    applies: Callable[[Case], bool]


def _declared(case: Case) -> bool:
    return case.round.declared is not None


def _unrecoverable(case: Case) -> bool:
    mark, limit_ms = case.round.unresolved, case.setup.unresolved_void_ms
    return mark is not None and limit_ms > 0 and case.since_ns(mark.at) >= limit_ms * NS_PER_MS


def _too_few_turns(case: Case) -> bool:
    rules = case.setup.rules

    def short(witness: WitnessState) -> bool:
        facts = witness.facts
        if facts.turns_basis is not TurnsBasis.COUNTED and facts.turns_basis is not TurnsBasis.REPORTED:
            return False
        if Defect.DATA_GAP in facts.defects or not witness.value:
            return False  # a lost event makes the count a lower bound; before landing it still grows
        ball, wheel = facts.ball_turns_x100, facts.wheel_turns_x100
        return (ball is not None and ball < 100 * rules.ball_min_turns) or (
            wheel is not None and wheel < 100 * rules.wheel_min_turns
        )

    return case.any(short)


def _same_direction(case: Case) -> bool:
    def same(witness: WitnessState) -> bool:
        ball, wheel = witness.facts.ball_direction, witness.facts.wheel_direction
        return bool(ball) and ball == wheel

    return case.setup.rules.ball_direction_opposite_required and case.any(same)


def _ended_without_number(case: Case) -> bool:
    return not case.defects and case.any(lambda w: w.ending is Ending.SHUT_DOWN and not w.value)


VOID_RULES: tuple[Rule, ...] = (
    Rule(
        "declared",
        "fi-ray-2013 2.1: the dealer declares the round void while it is in progress",
        "declared void by an entitled person",
        _declared,
    ),
    Rule(
        "unrecoverable",
        "profile: unresolved_void_after_s; GLI-19 B.2.1 e",
        "the round stayed unresolved for longer than the profile allows",
        _unrecoverable,
    ),
    Rule(
        "device-fault",
        "fi-ray-2013 2.1: the throw fails; SlingShot 2 flag 4",
        "the device reported a sensor, motor or encoder fault",
        lambda case: case.flagged(Flag.DEVICE_FAULT),
    ),
    Rule(
        "ball-not-detected",
        "fi-ray-2013 2.1: the throw fails; SlingShot 2 flag 1 for 5 s",
        "the ball was not sensed for longer than its maker allows",
        lambda case: case.flagged(Flag.BALL_NOT_DETECTED),
    ),
    Rule(
        "ball-with-rotor",
        "fi-ray-2013 2.1: the throw fails; SlingShot 2 flag 2",
        "the ball ran in the direction of the rotor",
        lambda case: case.flagged(Flag.BALL_WITH_ROTOR),
    ),
    Rule(
        "launch-failed",
        "fi-ray-2013 2.1: the throw of the ball fails; SlingShot 2 flag 8",
        "the ball was not launched properly",
        lambda case: case.flagged(Flag.LAUNCH_FAILED),
    ),
    Rule(
        "same-direction",
        "us-sd: ball and wheel must turn in opposite directions",
        "the ball turned in the direction of the wheel",
        _same_direction,
    ),
    Rule(
        "too-few-turns",
        "profile: ball_min_turns, wheel_min_turns",
        "the ball or the wheel did not turn often enough",
        _too_few_turns,
    ),
    Rule(
        "draw-abandoned",
        "fi-ray-2013 2.1: the throw fails",
        "the device was shut down before it had a number",
        _ended_without_number,
    ),
)
"""In order; the first that applies names the void."""


def _defect_rule(defect: Defect, text: str) -> Rule:
    return Rule(str(defect), "invariant: no guess", text, lambda case: defect in case.defects)


def _disagree(case: Case) -> bool:
    return len({w.value for w in case.round.witnesses if w.value}) > 1


def _ended_unread(case: Case) -> bool:
    return case.any(lambda w: w.ending is not None and not w.value)


def _odds_missing(case: Case) -> bool:
    closed = case.round.bets_closed
    overdue = closed is not None and case.since_ns(closed.at) >= case.setup.odds_timeout_ms * NS_PER_MS
    return case.setup.needs_odds and case.round.odds is None and (overdue or bool(case.round.odds_failed))


def _draw_timeout(case: Case) -> bool:
    closed = case.round.bets_closed
    return (
        case.round.draw is not Draw.AT_REST
        and closed is not None
        and case.since_ns(closed.at) >= case.setup.draw_timeout_ms * NS_PER_MS
    )


def _turns_not_proven(case: Case) -> bool:
    """The profile asks for turns, and a witness at rest has no proof of a kind that is enough."""
    rules = case.setup.rules
    if rules.ball_min_turns == 0 and rules.wheel_min_turns == 0:
        return False

    def unproven(witness: WitnessState) -> bool:
        facts = witness.facts
        if not witness.value:
            return False
        if str(facts.turns_basis) not in rules.turns_basis:
            return True
        ball_unknown = rules.ball_min_turns > 0 and facts.ball_turns_x100 is None
        wheel_unknown = rules.wheel_min_turns > 0 and facts.wheel_turns_x100 is None
        return facts.turns_basis is not TurnsBasis.CERTIFIED and (ball_unknown or wheel_unknown)

    return case.any(unproven)


def _direction_not_proven(case: Case) -> bool:
    def unproven(witness: WitnessState) -> bool:
        facts = witness.facts
        return bool(witness.value) and not (facts.ball_direction and facts.wheel_direction)

    return case.setup.rules.ball_direction_opposite_required and case.any(unproven)


def _at_rest_before_close(case: Case) -> bool:
    return case.round.draw is Draw.AT_REST and case.round.betting is Betting.OPEN


_NO_GUESS = "invariant: no guess"

DOUBT_RULES: tuple[Rule, ...] = (
    Rule(
        "restart-in-mid-round", _NO_GUESS, "the daemon restarted in mid-round", lambda c: c.round.interrupted
    ),
    _defect_rule(Defect.WRONG_DEVICE, "the device is not the one that is bound to this table"),
    _defect_rule(Defect.JOINED_MID_GAME, "the game was under way when we came"),
    _defect_rule(Defect.DEVICE_LOST, "the device was lost in mid-round"),
    _defect_rule(Defect.DATA_GAP, "the device was silent inside the draw"),
    _defect_rule(Defect.ILLEGAL_TRANSITION, "the device made a step that means lost data"),
    _defect_rule(Defect.COUNTER_NOT_ADVANCED, "a new spin came under the number of the one before"),
    _defect_rule(Defect.WITNESSES_DISAGREE, "two readings of the same draw differ"),
    _defect_rule(Defect.NUMBER_CHANGED, "the number changed while it was shown"),
    _defect_rule(Defect.NOT_ON_WHEEL, "the number is not on this wheel"),
    _defect_rule(Defect.UNCONFIRMED, "the number was not confirmed by a second reading"),
    _defect_rule(Defect.BALL_BRIEFLY_NOT_DETECTED, "the ball was not sensed for a moment of the draw"),
    _defect_rule(Defect.ROTOR_OVER_SPEED, "the rotor ran away"),
    _defect_rule(Defect.ROTOR_STOPPED, "the rotor stood still while the ball ran"),
    _defect_rule(Defect.ROTOR_REVERSED, "the rotor changed its direction after no more bets"),
    _defect_rule(Defect.CAPTURE_ENDED, "the capture ends inside the game"),
    Rule(
        "witnesses-disagree",
        "design 5: witnesses must agree",
        "two devices read different outcomes",
        _disagree,
    ),
    Rule("no-reading", _NO_GUESS, "the game ended without a number", _ended_unread),
    Rule(
        "turns-not-proven",
        "profile: turns_basis",
        "nothing proves the turns that the profile asks",
        _turns_not_proven,
    ),
    Rule(
        "direction-not-proven",
        "profile: ball_direction_opposite_required",
        "nothing proves the directions that the profile asks",
        _direction_not_proven,
    ),
    Rule(
        "odds-before-no-more-bets",
        "fi-ray-2013 2.1 B: the table is drawn after no more bets",
        "the odds table was drawn while bets were open",
        lambda case: case.round.odds_early,
    ),
    Rule(
        "odds-missing",
        "fi-ray-2013 2.1 B: which table applies is drawn for each round",
        "the odds box gave no valid answer for this round",
        _odds_missing,
    ),
    Rule("bets-still-open", "rulebook G5", "the draw ended before no more bets", _at_rest_before_close),
    Rule("draw-timeout", _NO_GUESS, "the draw did not come to an end in time", _draw_timeout),
)
"""In order; the first that applies names the doubt."""


def first(rules: tuple[Rule, ...], case: Case) -> Rule | None:
    """The first rule of a table that applies."""
    return next((rule for rule in rules if rule.applies(case)), None)
