"""What people decide with two signatures: a result that no device could give, and the correction of a round.

One person proposes, another approves within the profile's time. Both signed commands stand in the record, so
nobody can make one alone without every verifier seeing it. Play goes on between the two: what was looked at
for the proposal is looked at anew for the approval, and a proposal that can no longer be approved is dropped.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core import decision
from dollyd.daemon.core.authority import two_persons
from dollyd.daemon.core.changes import final, round_number, with_round
from dollyd.daemon.core.effects import Emit, Stepped
from dollyd.daemon.core.events import (
    Approved,
    CorrectionProposed,
    NoneImprisoned,
    Original,
    ResultProposed,
)
from dollyd.daemon.core.games.spec import Drawn, Memory, Value
from dollyd.daemon.core.state import Betting, Mark, Proposal, Setup, Table
from dollyd.wire.record import Approval, Kind
from dollyd.wire.stamp import NS_PER_S, Stamp


def _told(what: str, text: str, number: int, **details: str) -> Emit:
    return Emit(Kind.INCIDENT, number, decision.incident(what, text, details=details))


def none_imprisoned(_setup: Setup, table: Table, event: NoneImprisoned, _at: Stamp) -> Stepped:
    """The version may change now, whatever the last result was."""
    text = "a person has made sure that no stake is imprisoned"
    return table, (_told("none-imprisoned", text, table.number, by=event.by, role=event.role),)


def result_proposed(setup: Setup, table: Table, event: ResultProposed, at: Stamp) -> Stepped:
    """Somebody says what came: the devices no longer decide the round, and wait for the second person."""
    why = _why_no_result(setup, table, event.round, event.value)
    if why:
        return table, (_told("manual-result-refused", why, round_number(table), by=event.by),)
    proposal = Proposal(
        event.by, event.role, event.command, event.digest, event.round, event.value, event.reason, at
    )
    table = with_round(replace(table, proposal=proposal), entered=Mark(event.by, at))
    return table, (_proposed("manual-result-proposed", proposal),)


def _why_no_result(setup: Setup, table: Table, number: int, value: Value) -> str:
    """Why a person may not say that the round came to `value`, empty where nothing stands against it."""
    current = table.round
    if current is None or number != current.number:
        return f"round {number} is not in progress"
    if current.unresolved is None and current.betting is Betting.OPEN:
        return "bets are still open"
    if value not in setup.game.values(setup.layout):
        return f"{' '.join(value)} is not on this {setup.game.name}"
    if setup.needs_odds and current.odds is None:
        return "no odds table is known to be drawn for this round: it can only be void"
    return ""


def correction_proposed(setup: Setup, table: Table, event: CorrectionProposed, at: Stamp) -> Stepped:
    """Somebody says that a published round was wrong."""
    why = _why_no_correction(setup, table, event.round, event.value, event.original)
    if why:
        return table, (_told("correction-refused", why, event.round, by=event.by),)
    proposal = Proposal(
        event.by,
        event.role,
        event.command,
        event.digest,
        event.round,
        event.value,
        event.reason,
        at,
        event.original,
    )
    return replace(table, proposal=proposal), (_proposed("correction-proposed", proposal),)


def _why_no_correction(setup: Setup, table: Table, number: int, value: Value, original: Original) -> str:
    """Why the round cannot be put right to `value`, empty where nothing stands against it."""
    if not 0 < number <= table.number or number == round_number(table):
        return f"round {number} has no final record"
    if value and value not in setup.game.values(setup.layout):
        return f"{' '.join(value)} is not on this {setup.game.name}"
    if original.setting != decision.setting(setup):
        return "the round was played by another version; correct it under that one"
    if value and setup.needs_odds and original.odds is None:
        return "no odds table is known to be drawn for this round: it can only be void"
    if not value and original.finding.kind == Kind.VOID:
        return "the round is void already"
    if value and decision.corrected(setup, original, value) == original.finding.outcome:
        return "that is what was published"
    if original.upto != _ended(table):
        return f"round {_ended(table)} ended while the journal was read: ask once more"
    as_before = original.newest and table.memory == _memories(setup, original, value)[0]
    if value and decision.began(setup, original) is None and not as_before:
        return "the round was void, and no record tells who sat where"
    if as_before or not _changes_memory(setup, original, value):
        return ""
    if not original.newest:
        return "later rounds of this game depend on it: their phase would have to be corrected first"
    return "who sits where was told since then, and depends on it"


def _ended(table: Table) -> int:
    """The last round that has its final record."""
    return table.number - 1 if table.round else table.number


def _memories(setup: Setup, original: Original, value: Value) -> tuple[Memory, Memory]:
    """What the game remembers of the round as it counts, and what it would remember of it corrected."""
    left, counts = decision.left_before(setup, original), original.finding.outcome
    before = setup.game.after(counts) if isinstance(counts, dict) else left
    if value:
        return before, setup.game.after(decision.corrected(setup, original, value))
    began = decision.began(setup, original)
    return before, left if began is None else began


def _changes_memory(setup: Setup, original: Original, value: Value) -> bool:
    before, after = _memories(setup, original, value)
    return before != after


def drop_overtaken(setup: Setup, table: Table, ended: Kind, number: int) -> Stepped:
    """A round has its final record: what was proposed for it, or hangs on what it left, waits in vain."""
    proposal = table.proposal
    if proposal is None:
        return table, ()
    if proposal.original is None:
        why = f"round {number} has its final record" if proposal.round <= number else ""
    elif ended is Kind.RESULT and _changes_memory(setup, proposal.original, proposal.value):
        why = f"round {number} was played on what is to be corrected"
    else:
        why = ""
    if not why:
        return table, ()
    told = _told("proposal-dropped", why, proposal.round, by=proposal.by, proposal=proposal.digest)
    return replace(table, proposal=None), (told,)


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
    waited_ns = at.mono_ns - proposal.at.mono_ns
    why = two_persons(proposal.by, proposal.role, event.by, event.role)
    if waited_ns > setup.rules.two_person_window_s * NS_PER_S:
        why = "the proposal has expired"
    elif not why and proposal.original is None:
        why = _why_no_result(setup, table, proposal.round, proposal.value)
    elif not why and event.original is None:
        why = "the journal was not asked for the round that is to be corrected"
    elif not why and event.original is not None:
        why = _why_no_correction(setup, table, proposal.round, proposal.value, event.original)
    if why:
        return table, (_told("approval-refused", why, proposal.round, by=event.by),)
    table = replace(table, proposal=None)
    approvals = [
        Approval(operator=proposal.by, role=proposal.role, command=proposal.command),
        Approval(operator=event.by, role=event.role, command=event.command),
    ]
    if proposal.original is not None and event.original is not None:
        return _correct(setup, table, proposal, event.original, approvals)
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


def _correct(
    setup: Setup, table: Table, proposal: Proposal, original: Original, approvals: list[Approval]
) -> Stepped:
    body = decision.correction(setup, original, proposal, approvals)
    if _changes_memory(setup, original, proposal.value):
        table = replace(table, memory=_memories(setup, original, proposal.value)[1])
    return table, (Emit(Kind.CORRECTION, proposal.round, body),)
