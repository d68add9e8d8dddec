"""What people decide with two signatures: a result that no device could give, and the correction of a round.

One person proposes, another approves within the profile's time. Both signed commands stand in the record, so
nobody can make one alone without every verifier seeing it.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core import decision
from dollyd.daemon.core.authority import two_persons
from dollyd.daemon.core.changes import final, round_number, with_round
from dollyd.daemon.core.effects import Effect, Emit, Stepped
from dollyd.daemon.core.events import Approved, CorrectionProposed, NoneImprisoned, ResultProposed
from dollyd.daemon.core.games.spec import Drawn, Memory, Outcome
from dollyd.daemon.core.record import Approval, Kind
from dollyd.daemon.core.stamp import NS_PER_S, Stamp
from dollyd.daemon.core.state import Betting, Mark, Proposal, Setup, Table


def _told(what: str, text: str, number: int, **details: str) -> Emit:
    return Emit(Kind.INCIDENT, number, decision.incident(what, text, details=details))


def none_imprisoned(_setup: Setup, table: Table, event: NoneImprisoned, _at: Stamp) -> Stepped:
    """The version may change now, whatever the last result was."""
    text = "a person has made sure that no stake is imprisoned"
    return table, (_told("none-imprisoned", text, table.number, by=event.by, role=event.role),)


def result_proposed(setup: Setup, table: Table, event: ResultProposed, at: Stamp) -> Stepped:
    """Somebody says what came: the devices no longer decide the round, and wait for the second person."""
    current = table.round
    why = ""
    if current is None or event.round != current.number:
        why = f"round {event.round} is not in progress"
    elif current.unresolved is None and current.betting is Betting.OPEN:
        why = "bets are still open"
    elif event.value not in setup.game.values(setup.layout):
        why = f"{' '.join(event.value)} is not on this {setup.game.name}"
    elif setup.needs_odds and current.odds is None:
        why = "no odds table is known to be drawn for this round: it can only be void"
    if why or current is None:
        return table, (_told("manual-result-refused", why, round_number(table), by=event.by),)
    proposal = Proposal(
        event.by, event.role, event.command, event.digest, current.number, event.value, event.reason, at
    )
    table = with_round(replace(table, proposal=proposal), entered=Mark(event.by, at))
    return table, (_proposed("manual-result-proposed", proposal),)


def correction_proposed(setup: Setup, table: Table, event: CorrectionProposed, at: Stamp) -> Stepped:
    """Somebody says that a published round was wrong."""
    value, original = event.value, event.original
    why = ""
    if not 0 < event.round <= table.number or event.round == round_number(table):
        why = f"round {event.round} has no final record"
    elif value and value not in setup.game.values(setup.layout):
        why = f"{' '.join(value)} is not on this {setup.game.name}"
    elif original.setting != decision.setting(setup):
        why = "the round was played by another version; correct it under that one"
    elif value and setup.needs_odds and original.odds is None:
        why = "no odds table is known to be drawn for this round: it can only be void"
    elif not value and original.finding.kind == Kind.VOID:
        why = "the round is void already"
    elif value and decision.corrected(setup, original, value) == original.finding.outcome:
        why = "that is what was published"
    elif not original.newest and _remembers(setup, event):
        why = "later rounds of this game depend on it: their phase would have to be corrected first"
    if why:
        return table, (_told("correction-refused", why, event.round, by=event.by),)
    proposal = Proposal(
        event.by, event.role, event.command, event.digest, event.round, value, event.reason, at, original
    )
    return replace(table, proposal=proposal), (_proposed("correction-proposed", proposal),)


def _remembers(setup: Setup, event: CorrectionProposed) -> bool:
    """Whether the game would go on from another memory than it did, so that later outcomes change as well."""
    original = event.original
    before = _memory(setup, original.finding.outcome or original.outcome_before)
    if not event.value:
        return before != _memory(setup, original.outcome_before)
    return before != setup.game.after(decision.corrected(setup, original, event.value))


def _memory(setup: Setup, outcome: Outcome | None) -> Memory:
    return setup.game.after(outcome) if outcome else ()


def _proposed(what: str, proposal: Proposal) -> Emit:
    text = "waits for the approval of a second person"
    return _told(
        what,
        text,
        proposal.round,
        by=proposal.by,
        role=proposal.role,
        value=" ".join(proposal.value) or "void",
        reason=proposal.reason,
        proposal=proposal.digest,
    )


def approved(setup: Setup, table: Table, event: Approved, at: Stamp) -> Stepped:
    """The second person: what was proposed becomes a record, if it still can."""
    proposal = table.proposal
    if proposal is None or proposal.digest != event.proposal:
        why = "there is no such proposal"
        return table, (_told("approval-refused", why, round_number(table), by=event.by),)
    current = table.round
    waited_ns = at.mono_ns - proposal.at.mono_ns
    why = two_persons(proposal.by, proposal.role, event.by, event.role)
    if waited_ns > setup.rules.two_person_window_s * NS_PER_S:
        why = "the proposal has expired"
    elif proposal.original is None and (current is None or current.number != proposal.round):
        why = f"round {proposal.round} is not in progress any more"
    if why:
        return table, (_told("approval-refused", why, proposal.round, by=event.by),)
    table = replace(table, proposal=None)
    approvals = [
        Approval(operator=proposal.by, role=proposal.role, command=proposal.command),
        Approval(operator=event.by, role=event.role, command=event.command),
    ]
    if proposal.original is not None:
        return _correct(setup, table, proposal, approvals)
    return _enter(setup, table, proposal, approvals, at)


def _enter(setup: Setup, table: Table, proposal: Proposal, approvals: list[Approval], at: Stamp) -> Stepped:
    current = table.round
    if current is None:
        return table, ()
    confirmed = replace(current, confirmed=Mark(approvals[1].operator, at))
    drawn = Drawn(proposal.value, setup.variant, setup.layout, table.memory, setup.quarters)
    outcome = setup.game.outcome(drawn)
    body = decision.manual_result(setup, table, confirmed, outcome, proposal.reason, approvals, at)
    table = replace(table, memory=setup.game.after(outcome), manual=True)
    return final(table), (Emit(Kind.RESULT, current.number, body, captured=True),)


def _correct(setup: Setup, table: Table, proposal: Proposal, approvals: list[Approval]) -> Stepped:
    original = proposal.original
    if original is None:
        return table, ()
    body = decision.correction(setup, original, proposal, approvals)
    effects: tuple[Effect, ...] = (Emit(Kind.CORRECTION, proposal.round, body),)
    if not original.newest:
        return table, effects
    counts = body.after.outcome or original.outcome_before
    return replace(table, memory=_memory(setup, counts)), effects
