"""Decisions to record bodies: what the round knows, in the words of the record."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from dollyd.daemon.core.events import GameRef, Original
from dollyd.daemon.core.games.spec import Drawn, Memory, Outcome, Value
from dollyd.daemon.core.rules import Rule
from dollyd.daemon.core.state import Missed, Proposal, Round, Setup, Table, WitnessState
from dollyd.wire.record import (
    Approval,
    BetsClosedBody,
    ClockBody,
    CorrectionBody,
    Device,
    Evidence,
    Finding,
    GapBody,
    IncidentBody,
    Kind,
    Moment,
    Odds,
    ResultBody,
    RoundBody,
    SessionBody,
    Setting,
    ThrowRejectedBody,
    Times,
    UnresolvedBody,
    VoidBody,
    Witness,
)
from dollyd.wire.stamp import NS_PER_MS, Stamp, iso_utc

CORRECTED = "corrected"
"""The rule of a round that two persons have made void by a correction."""


def moment(at: Stamp) -> Moment:
    """A stamp as it stands in a record."""
    return Moment(utc=iso_utc(at.utc_ns), monotonic_ns=at.mono_ns)


def _moment_or_unset(at: Stamp | None) -> Moment | UnsetType:
    return moment(at) if at else UNSET


def setting(setup: Setup) -> Setting:
    """What is being played, by which text."""
    return Setting(
        game=setup.game.name,
        variant=setup.variant_name,
        rulebook=setup.rulebook,
        profile=setup.profile,
        zero_rule=setup.zero_rule or UNSET,
    )


def session(
    setup: Setup, event: str, by: str, opened: Stamp, at: Stamp, checks: dict[str, str] | None = None
) -> SessionBody:
    """The table was opened, resumed or closed."""
    return SessionBody(
        event=event,
        by=by,
        setting=setting(setup),
        gaming_date=setup.gaming_date(opened.utc_ns),
        stakes=setup.stakes,
        opened_at=iso_utc(opened.utc_ns),
        closed_at=iso_utc(at.utc_ns) if event == "closed" else UNSET,
        checks=checks or UNSET,
    )


def round_opened(game: GameRef | None, at: Stamp) -> RoundBody:
    """A round was opened for bets."""
    return RoundBody(game_ref=str(game) if game else "", opened=moment(at))


def bets_closed(by: str, at: Stamp) -> BetsClosedBody:
    """No more bets."""
    return BetsClosedBody(by=by, closed=moment(at))


def incident(what: str, text: str, device: str = "", details: dict[str, str] | None = None) -> IncidentBody:
    """Something worth knowing that decides no round."""
    return IncidentBody(what=what, device=device or UNSET, text=text, details=details or {})


def missed_games(missed: Missed) -> GapBody:
    """Games that a device played while no round was open."""
    return GapBody(cause="no-round-open", games=list(missed.games), count=missed.count)


def downtime(since_utc: str, mono_ns: int) -> GapBody:
    """The daemon was down since the last record before; `mono_ns` by the monotonic clock, -1: not known."""
    down_ms = mono_ns // NS_PER_MS if mono_ns >= 0 else UNSET
    return GapBody(cause="daemon-down", games=[], count=0, since_utc=since_utc, down_ms=down_ms)


def clock_change(
    setup: Setup, step_ns: int, at: Stamp, *, synchronised: bool | None = None, cause: str = ""
) -> ClockBody:
    """UTC moved against the monotonic clock, or its synchronisation changed."""
    dates = (setup.gaming_date(at.utc_ns), setup.gaming_date(at.utc_ns - step_ns))
    changed = dates[0] != dates[1]
    return ClockBody(
        step_ns=step_ns,
        cause=cause or UNSET,
        synchronised=UNSET if synchronised is None else synchronised,
        gaming_date=dates[0] if changed else UNSET,
        gaming_date_before=dates[1] if changed else UNSET,
    )


def _witness(witness: WitnessState) -> Witness:
    facts = witness.facts
    return Witness(
        device=witness.game.device,
        game=str(witness.game),
        value=list(witness.value),
        flags=[str(flag) for flag in facts.flags],
        defects=[str(defect) for defect in facts.defects],
        relaunches=facts.relaunches,
        turns_basis=str(facts.turns_basis),
        ball_turns_x100=UNSET if facts.ball_turns_x100 is None else facts.ball_turns_x100,
        wheel_turns_x100=UNSET if facts.wheel_turns_x100 is None else facts.wheel_turns_x100,
        turns_lower_bound=facts.turns_lower_bound,
        ball_direction=facts.ball_direction or UNSET,
        wheel_direction=facts.wheel_direction or UNSET,
        details=dict(facts.details),
    )


def _evidence(setup: Setup, table: Table, current: Round) -> Evidence:
    identities = {view.name: dict(view.identity) for view in table.devices}
    devices = [
        Device(name=d.name, driver=d.driver, role=d.role, identity=identities.get(d.name, {}))
        for d in setup.devices
    ]
    return Evidence(
        game_ref=str(current.witnesses[0].game) if current.witnesses else "",
        times=Times(
            opened=_moment_or_unset(current.opened),
            bets_closed=_moment_or_unset(current.bets_closed.at if current.bets_closed else None),
            draw_started=_moment_or_unset(current.draw_started),
            at_rest=_moment_or_unset(current.at_rest),
            confirmed=_moment_or_unset(current.confirmed.at if current.confirmed else None),
        ),
        bets_closed_by=current.bets_closed.by if current.bets_closed else UNSET,
        confirmed_by=current.confirmed.by if current.confirmed else UNSET,
        devices=devices,
        witnesses=[_witness(w) for w in current.witnesses],
    )


def _odds(current: Round) -> Odds | UnsetType:
    drawn, at = current.odds, current.odds_at
    if drawn is None or at is None:
        return UNSET
    return Odds(
        table=drawn.table,
        device=drawn.device,
        counter=drawn.counter,
        nonce=drawn.nonce,
        proof=drawn.proof,
        drawn=moment(at),
    )


def reading(setup: Setup, current: Round) -> tuple[str, ...]:
    """What the witnesses of the outcome agree on, empty before they have read it."""
    return next((w.value for w in current.witnesses if w.game.device in setup.witnesses and w.value), ())


def outcome(setup: Setup, table: Table, current: Round) -> Outcome:
    """The reading with all its attributes."""
    drawn = Drawn(reading(setup, current), setup.variant, setup.layout, table.memory, setup.quarters)
    return setup.game.outcome(drawn)


def result(setup: Setup, table: Table, current: Round, at: Stamp) -> ResultBody:
    """The outcome that counts, with all its attributes."""
    return ResultBody(
        setting=setting(setup),
        gaming_date=setup.gaming_date(at.utc_ns),
        stakes=setup.stakes,
        outcome=outcome(setup, table, current),
        odds=_odds(current),
        mode="auto",
        evidence=_evidence(setup, table, current),
    )


def manual_result(
    setup: Setup,
    table: Table,
    current: Round,
    entered: Outcome,
    reason: str,
    approvals: list[Approval],
    at: Stamp,
) -> ResultBody:
    """The outcome as two persons entered it; what the devices read stays in the evidence."""
    return ResultBody(
        setting=setting(setup),
        gaming_date=setup.gaming_date(at.utc_ns),
        stakes=setup.stakes,
        outcome=entered,
        odds=_odds(current),
        mode="manual",
        reason=reason,
        approvals=approvals,
        evidence=_evidence(setup, table, current),
    )


def corrected(setup: Setup, original: Original, value: Value) -> Outcome:
    """All attributes of what really came in a round that is corrected."""
    memory = began(setup, original)
    memory = left_before(setup, original) if memory is None else memory
    return setup.game.outcome(Drawn(value, setup.variant, setup.layout, memory, setup.quarters))


def left_before(setup: Setup, original: Original) -> Memory:
    """What the game remembered once the result before this round was published."""
    return setup.game.after(original.outcome_before) if original.outcome_before else ()


def began(setup: Setup, original: Original) -> Memory | None:
    """What the game remembered when this round was drawn; None where no record tells."""
    counts = original.finding.outcome
    outcome = counts if isinstance(counts, dict) else None
    return setup.game.began(outcome, left_before(setup, original))


def correction(
    setup: Setup, original: Original, proposal: Proposal, approvals: list[Approval]
) -> CorrectionBody:
    """A published round is put right; `original` is as it was read at the approval."""
    if proposal.value:
        outcome = corrected(setup, original, proposal.value)
        after = Finding(kind=Kind.RESULT, outcome=outcome)
    else:
        policy = setup.rules.void_stake_policy
        after = Finding(kind=Kind.VOID, rule=CORRECTED, stake_policy=policy)
    return CorrectionBody(
        id=proposal.digest,
        corrects=original.seq,
        element="outcome" if after.kind == original.finding.kind else "verdict",
        before=original.finding,
        after=after,
        setting=original.setting,
        gaming_date=original.gaming_date,
        stakes=original.stakes or UNSET,
        odds=original.odds or UNSET,
        reason=proposal.reason,
        approvals=approvals,
    )


def void(setup: Setup, table: Table, current: Round, rule: Rule, at: Stamp) -> VoidBody:
    """The round does not count."""
    declared = current.declared
    return VoidBody(
        rule=rule.id,
        clause=rule.clause,
        text=declared.reason if declared else rule.text,
        stake_policy=setup.rules.void_stake_policy,
        setting=setting(setup),
        gaming_date=setup.gaming_date(at.utc_ns),
        declared_by=declared.by if declared else UNSET,
        role=declared.role if declared else UNSET,
        judged_by=(declared.judged_by if declared else "") or UNSET,
        judged_role=(declared.judged_role if declared else "") or UNSET,
        odds=_odds(current),
        evidence=_evidence(setup, table, current),
    )


def throw_rejected(setup: Setup, table: Table, current: Round, rule: Rule, at: Stamp) -> ThrowRejectedBody:
    """A throw does not count."""
    rejected = current.throw.rejected
    return ThrowRejectedBody(
        rule=rule.id,
        clause=rule.clause,
        text=rejected.reason if rejected else rule.text,
        setting=setting(setup),
        gaming_date=setup.gaming_date(at.utc_ns),
        throw=current.throw.number,
        shooter=dict(table.memory).get("shooter", "") or UNSET,
        declared_by=rejected.by if rejected else UNSET,
        role=rejected.role if rejected else UNSET,
        evidence=_evidence(setup, table, current),
    )


def unresolved(setup: Setup, table: Table, current: Round, rule: Rule, at: Stamp) -> UnresolvedBody:
    """We cannot know."""
    return UnresolvedBody(
        rule=rule.id,
        text=rule.text,
        setting=setting(setup),
        gaming_date=setup.gaming_date(at.utc_ns),
        odds=_odds(current),
        evidence=_evidence(setup, table, current),
    )
