"""The rules that end a round without a result, as two ordered tables of pure functions.

`VOID_RULES` say that the round does not count; each names its clause. `DOUBT_RULES` say that we cannot know;
the round is unresolved. Void rules that rest on something positively seen come first; those that conclude
from absence apply only where the evidence has no defect.
"""

from __future__ import annotations

from dollyd.daemon.core.events import Defect, DrawFacts, Ending, Flag, TurnsBasis
from dollyd.daemon.core.rules import Case, Rule
from dollyd.daemon.core.state import HOST_STALLED, TOO_FAST, Betting, Draw, WitnessState
from dollyd.wire.stamp import NS_PER_MS


def _declared(case: Case) -> bool:
    return case.round.declared is not None


def _unrecoverable(case: Case) -> bool:
    mark, limit_ms = case.round.unresolved, case.setup.unresolved_void_ms
    return mark is not None and limit_ms > 0 and case.overdue(mark.at, limit_ms)


def _short_of_turns(case: Case, witness: WitnessState) -> bool:
    rules, facts = case.setup.rules, witness.facts
    ball, wheel = facts.ball_turns_x100, facts.wheel_turns_x100
    ended = bool(witness.value) or witness.observed or Flag.BETWEEN_SECTORS in facts.flags
    return ended and (  # before the end the count still grows
        (ball is not None and ball < 100 * rules.ball_min_turns)
        or (wheel is not None and wheel < 100 * rules.wheel_min_turns)
    )


def _too_few_turns(case: Case) -> bool:
    """A count that lost events, or that something speaks against, proves no lack of turns."""
    if case.all_heard and case.turns_disagree:
        return False

    def proven(facts: DrawFacts) -> bool:
        known = facts.turns_basis in (TurnsBasis.COUNTED, TurnsBasis.REPORTED)
        return known and not facts.turns_lower_bound and not facts.defects

    return case.any(lambda w: _short_of_turns(case, w) and proven(w.facts))


def _same_direction(case: Case) -> bool:
    ball = case.ball_directions
    asked = case.setup.rules.ball_direction_opposite_required
    return asked and len(ball) == 1 and ball == case.wheel_directions


def _ended_without_number(case: Case) -> bool:
    """A device that reads the outcome was shut down; one that only supports it can abandon no draw."""
    readers = case.setup.witnesses
    return not case.defects and case.any(
        lambda w: w.ending is Ending.SHUT_DOWN and not w.value and w.game.device in readers
    )


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
        "ball-out",
        "us-sd: the ball leaves the wheel; then it is recovered and inspected",
        "the ball left the wheel",
        lambda case: case.flagged(Flag.BALL_OUT),
        inspect=True,
    ),
    Rule(
        "foreign-object",
        "us-sd: a foreign object enters before the ball is at rest",
        "a second ball or a foreign object was in the wheel",
        lambda case: case.flagged(Flag.SECOND_BALL),
    ),
    Rule(
        "outside-influence",
        "fi-ray-2013 2.3 c: an outside factor has affected the draw",
        "the wheel was touched or braked",
        lambda case: case.flagged(Flag.TOUCHED),
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
        "between-sectors",
        "fi-ray-2013 2.3 b: the winning symbol stops between two sectors",
        "the pointer rests on a divider",
        lambda case: case.flagged(Flag.BETWEEN_SECTORS),
    ),
    Rule(
        "draw-abandoned",
        "fi-ray-2013 2.1: the throw fails",
        "the device was shut down before it had a number",
        _ended_without_number,
    ),
)
"""In order; the first that applies names the void."""

INSPECTED_AFTER = frozenset(rule.id for rule in VOID_RULES if rule.inspect)
"""Voids after which something must be inspected before the next round."""


def _defect_rule(defect: Defect, text: str) -> Rule:
    return Rule(str(defect), "invariant: no guess", text, lambda case: defect in case.defects)


def _disagree(case: Case) -> bool:
    return len(case.values) > 1


def _ended_unread(case: Case) -> bool:
    return case.any(lambda w: w.ending is not None and not w.value and not w.observed)


def _witness_missing(case: Case) -> bool:
    return not case.all_heard and case.overdue(case.round.first_reading, case.setup.witness_timeout_ms)


def _odds_missing(case: Case) -> bool:
    closed = case.round.bets_closed
    overdue = closed is not None and case.overdue(closed.at, case.setup.odds_timeout_ms)
    return case.setup.needs_odds and case.round.odds is None and (overdue or bool(case.round.odds_failed))


def _draw_timeout(case: Case) -> bool:
    running = case.round.draw is not Draw.AT_REST
    return running and case.overdue(case.draw_awaited, case.setup.draw_timeout_ms)


def _left_to_dealer(case: Case) -> bool:
    """Where the dealer confirms, the dealer has watched: that supplies what no device proves."""
    return case.setup.confirm == "dealer"


def _turns_not_proven(case: Case) -> bool:
    """The profile asks for turns, all is at rest, and nothing proves them in a way that is enough."""
    rules = case.setup.rules
    if not case.all_heard or _left_to_dealer(case):
        return False

    def proves(witness: WitnessState, turns: int | None) -> bool:
        basis = witness.facts.turns_basis
        return str(basis) in rules.turns_basis and (basis is TurnsBasis.CERTIFIED or turns is not None)

    ball = case.any(lambda w: proves(w, w.facts.ball_turns_x100))
    wheel = case.any(lambda w: proves(w, w.facts.wheel_turns_x100))
    return (rules.ball_min_turns > 0 and not ball) or (rules.wheel_min_turns > 0 and not wheel)


def _turns_uncertain(case: Case) -> bool:
    return case.any(lambda w: _short_of_turns(case, w) and w.facts.turns_lower_bound)


def _direction_not_proven(case: Case) -> bool:
    asked = case.setup.rules.ball_direction_opposite_required and case.all_heard and not _left_to_dealer(case)
    return asked and not (case.ball_directions and case.wheel_directions)


def _directions_disagree(case: Case) -> bool:
    return case.all_heard and max(len(case.ball_directions), len(case.wheel_directions)) > 1


def _not_alternated(case: Case) -> bool:
    now, before = case.wheel_direction, case.table.wheel_direction
    return case.setup.rules.wheel_direction_alternates and case.all_read and bool(now) and now == before


def _at_rest_before_close(case: Case) -> bool:
    reversed_order = case.setup.rules.nmb_before_draw == "reversed"
    return case.round.draw is Draw.AT_REST and case.round.betting is Betting.OPEN and not reversed_order


def _too_short(case: Case) -> bool:
    """Whether the game was over sooner than one can be.

    A throw begins when the one before was rejected. A game that nobody saw begin, for the announcement opened
    its round, began after the one before was at rest.
    """
    current, unseen = case.round, case.setup.opens_by_announcement
    began = current.throw.awaited or (case.table.rested if unseen else current.opened)
    if began is None or current.at_rest is None:
        return False
    lasted_ns = current.at_rest.mono_ns - began.mono_ns
    return lasted_ns < case.setup.rules.game_min_ms * NS_PER_MS


_NO_GUESS = "invariant: no guess"

DOUBT_RULES: tuple[Rule, ...] = (
    Rule(
        "restart-in-mid-round", _NO_GUESS, "the daemon restarted in mid-round", lambda c: c.round.interrupted
    ),
    Rule(
        TOO_FAST,
        _NO_GUESS,
        "a device of the table causes more records than one can in earnest",
        lambda case: case.round.spoilt == TOO_FAST,
    ),
    Rule(
        HOST_STALLED,
        _NO_GUESS,
        "the host stood still in mid-round: what was said meanwhile was not read in time",
        lambda case: case.round.spoilt == HOST_STALLED,
    ),
    Rule(
        "entered-by-hand",
        "GLI-19 4.18.4 d: a manual operation mode for wrong reads",
        "a person has entered what came: the devices no longer decide",
        lambda case: case.round.entered is not None,
    ),
    Rule(
        "device-changed",
        _NO_GUESS,
        "another device came behind a name of this table",
        lambda case: case.round.device_changed,
    ),
    _defect_rule(Defect.WRONG_DEVICE, "the device is not the one that is bound to this table"),
    _defect_rule(Defect.JOINED_MID_GAME, "the game was under way when we came"),
    _defect_rule(Defect.STALE_FRAMES, "the draw was heard faster than it can be made: old frames"),
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
    _defect_rule(Defect.SENSORS_DISAGREE, "the device says that its own sensors do not agree"),
    _defect_rule(Defect.UNREAD, "a part of the outcome could not be read"),
    _defect_rule(Defect.COUNTS_DIFFER, "the device's count of turns is not ours"),
    _defect_rule(Defect.CAPTURE_ENDED, "the capture ends inside the game"),
    Rule(
        "too-short",
        "profile: game_min_ms",
        "the game was over sooner than one can be",
        _too_short,
    ),
    Rule(
        "witnesses-disagree",
        "design 5: witnesses must agree",
        "two devices read different outcomes",
        _disagree,
    ),
    Rule(
        "witness-missing",
        "design 5: all witnesses must be heard",
        "a witness did not speak in time",
        _witness_missing,
    ),
    Rule("no-reading", _NO_GUESS, "the game ended without a number", _ended_unread),
    Rule(
        "turns-not-proven",
        "profile: turns_basis",
        "nothing proves the turns that the profile asks",
        _turns_not_proven,
    ),
    Rule(
        "turns-uncertain",
        "devices part 3: a lost event makes the count a lower bound",
        "fewer turns were counted than are asked, but events were lost",
        _turns_uncertain,
    ),
    Rule(
        "directions-disagree",
        "design 5: witnesses must agree",
        "two devices saw different directions of the ball or of the wheel",
        _directions_disagree,
    ),
    Rule(
        "turns-disagree",
        "design 5: witnesses must agree",
        "two devices counted different turns of the ball",
        lambda case: case.all_heard and case.turns_disagree,
    ),
    Rule(
        "direction-not-proven",
        "profile: ball_direction_opposite_required",
        "nothing proves the directions that the profile asks",
        _direction_not_proven,
    ),
    Rule(
        "direction-not-alternated",
        "profile: wheel_direction_alternates",
        "the wheel turned in the direction of the spin before",
        _not_alternated,
    ),
    Rule(
        "draw-before-no-more-bets",
        "profile: nmb_before_draw = required",
        "the draw started before no more bets",
        lambda case: case.round.early_draw,
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
