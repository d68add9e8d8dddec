"""The rules that the records of one chain keep, for everybody who reads one: in one place.

The caller has checked form, signature, whose turn it is, number and link of a record. Everything that its
body and its place among the others must say is judged here, of each record once and in order. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from dollyd.client.proof.approvals import ApprovalError, Decided, Place, check_decision
from dollyd.client.proof.derived import POLICIES, contradiction, void_policy
from dollyd.client.proof.ended import NOT_COMPARED, ROUNDS_KEPT, Ended, EndedRounds
from dollyd.client.proof.reading import DECISIONS, Read
from dollyd.wire.record import FINAL_KINDS, VERSION, CorrectionBody, Kind
from dollyd.wire.round_rules import RoundRules
from dollyd.wire.trust import Trust

REMEMBERED = 32
"""Ended rounds, and decisions of two persons, that a state holds."""

NOT_TWO_PERSONS: Final = "two persons must stand behind it: "
"""So begins what is said of a decision by hand that is none. A newer trust file may say otherwise."""
KINDS: Final = {kind.value: kind for kind in Kind}


class Persons(StrEnum):
    """What is known of the persons behind a record."""

    CHECKED = "checked"
    """Two persons decided it, whose keys and roles the trust file knows."""
    FORM = "form"
    """Their commands fit each other and the record; whose they are takes a trust file to check."""
    NONE = "none"
    """It is no decision of persons."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is thought of a record."""

    problems: tuple[str, ...] = ()
    """Which rules it breaks, in words."""
    persons: Persons = Persons.NONE
    unchecked: tuple[str, ...] = ()
    """What could not be checked, in words."""


class State(Struct, frozen=True, array_like=True):
    """What the next record is judged by, as far as it outlives a restart."""

    known: bool
    last_round: int
    open_round: int
    unresolved: bool
    finals: int
    """-1: not known."""
    stakes: bytes
    previous: tuple[str, int]
    digests: list[bytes]
    rounds: list[tuple[int, int, str, int, int, int, str]]
    """Number, record, kind; finding, played and stakes by their place in `digests`; memory."""
    decided: dict[str, int]


class ChainRules:
    """One chain, record by record. `whole`: from its first record on; else what came before is learned."""

    def __init__(self, *, whole: bool = True, rounds_kept: int = ROUNDS_KEPT) -> None:
        self.rounds = RoundRules(from_start=whole)
        self.finals: int | None = 0 if whole else None
        """Ended rounds up to here, None: not known yet."""
        self.previous = ("", 0)
        """The chain before it and the last record of that one, as its own first record says, or people."""
        self._ended = EndedRounds(whole=whole, rounds_kept=rounds_kept)
        self._decided: dict[str, int] = {}
        """By the digest of a proposal, the record that two persons decided with it."""
        self._history = b""
        """A part of the state, empty where it is to be made again."""
        self._policies: dict[tuple[str, str], str] = {}
        """By profile and game what voids say of the stakes."""

    def take(self, found: Read, trust: Trust | None, *, fast: bool = False) -> Judged:
        """Judge the next record. `trust` knows the persons; `fast`: of bodies only those that are read."""
        kind = KINDS.get(found.kind)
        if found.v != VERSION:
            return Judged((f"version {found.v} is not known",))
        if kind is None:
            return Judged((f"kind {found.kind!r} is not known",))
        problems = [*self._of_the_chain(found, kind)]
        persons = Persons.NONE
        unchecked: tuple[str, ...] = ()
        if not fast:
            problems += self._of_the_body(found, kind)
            if found.by_people:
                wrong, persons = self._of_people(found, kind, trust)
                problems += wrong
            wrong, unchecked = self._of_the_end(found, kind)
            problems += wrong
        if why := self.rounds.take(kind, found.round, found.mode):
            problems.append(why)
        return Judged(tuple(problems), persons, unchecked)

    def lose(self) -> None:
        """Records are missing before the next one: what they said is learned from what follows."""
        self.rounds, self.finals = RoundRules(from_start=False), None
        self._ended.lose()
        self._history = b""

    # --- the rules -------------------------------------------------------------------------------

    def _of_the_chain(self, found: Read, kind: Kind) -> Iterator[str]:
        if found.seq == 1 and not self.previous[0]:
            self.previous = (found.previous_chain, found.previous_seq)
        if found.seq == 1 and kind is not Kind.KEY:
            yield "the chain does not begin with its key"
        if kind is Kind.CHECKPOINT:
            yield from self._of_a_checkpoint(found)
        if kind in FINAL_KINDS and self.finals is not None:
            self.finals += 1

    def _of_a_checkpoint(self, found: Read) -> Iterator[str]:
        body = found.checkpoint
        if body is None:
            yield f"its body is not that of a checkpoint: {found.body_problem}"
            return
        if (body.seq, body.head) != (found.seq - 1, found.prev):
            yield f"the checkpoint is of record {body.seq}, not of the one before it"
        if self.finals is None:
            self.finals = body.finals
        elif body.finals != self.finals:
            yield f"the checkpoint counts {body.finals} ended rounds; the chain has {self.finals}"

    def _of_the_body(self, found: Read, kind: Kind) -> Iterator[str]:
        if found.body_problem and kind in DECISIONS:
            yield f"its body is not that of a {found.kind}: {found.body_problem}"
        elif found.told_problem:
            yield f"it does not say how the round ended: {found.told_problem}"
        elif kind is Kind.VOID and found.told is not None:
            yield from self._of_a_policy(found.profile, found.told.game, found.told.policy)

    def _of_people(self, found: Read, kind: Kind, trust: Trust | None) -> tuple[list[str], Persons]:
        """Two persons behind a result by hand or a correction; each decision of two counts once."""
        place = Place(kind, found.site, found.table, found.chain, found.round, found.utc)
        try:
            decided = check_decision(place, found.by_people, trust)
        except ApprovalError as error:
            return [f"{NOT_TWO_PERSONS}{error}"], Persons.NONE
        problems = [*self._of_a_decision(found, decided)]
        self._history = b""
        before = self._decided.setdefault(decided.proposal, found.seq)
        if before != found.seq:
            problems.append(f"the two persons decided record {before}, and not this one too")
        return problems, Persons.FORM if trust is None else Persons.CHECKED

    def _of_a_decision(self, found: Read, decided: Decided) -> Iterator[str]:
        """What follows from what the two persons signed, and was written by the node."""
        body = decided.body
        outcome, memory = body.outcome if not isinstance(body, CorrectionBody) else body.after.outcome, None
        if isinstance(body, CorrectionBody):
            after = body.after
            if after.kind == Kind.VOID:
                if isinstance(after.outcome, dict) or not after.rule:
                    yield "it does not fit the round: a void has a rule and no outcome"
                yield from self._of_a_policy(
                    body.setting.profile.digest, body.setting.game, after.stake_policy or ""
                )
            elif after.rule or after.stake_policy:
                yield "it does not fit the round: a result has neither rule nor stake policy"
            memory = self._ended.memory_before(found.round)
        if isinstance(outcome, dict) and (why := contradiction(body.setting.game, outcome, memory)):
            yield f"its outcome contradicts itself: {why}"

    def _of_a_policy(self, profile: str, game: str, policy: str) -> Iterator[str]:
        """What becomes of the stakes of a void is the profile's to say, and the same for every void of it."""
        right = void_policy(profile, game) or self._policies.setdefault((profile, game), policy)
        if policy not in POLICIES:
            yield f"its stake policy {policy!r} is not known"
        elif policy != right:
            yield f"its stake policy is {policy}; that of its profile is {right}"

    def _of_the_end(self, found: Read, kind: Kind) -> tuple[list[str], tuple[str, ...]]:
        """Remember how a round ended, and hold a correction against what is remembered."""
        told = found.told
        if told is None:
            return [], ()
        self._history = b""
        if kind is Kind.SESSION:
            self._ended.stakes = told.stakes
        elif kind in FINAL_KINDS:
            self._ended.end(found.round, found.seq, told)
        elif kind is Kind.CORRECTION:
            why, compared = self._ended.correct(found.round, found.seq, told)
            return [f"it does not fit the round: {why}"] if why else [], () if compared else (NOT_COMPARED,)
        return [], ()

    # --- to be kept ------------------------------------------------------------------------------

    def state(self) -> str:
        """What a later `resumed` goes on with, as one text; a few kilobytes at most."""
        rounds = self.rounds
        stands = (rounds.known, rounds.last_round, rounds.open_round, rounds.unresolved)
        finals = -1 if self.finals is None else self.finals
        self._history = self._history or self._encoded()
        head = msgspec.json.encode((*stands, finals, self._ended.stakes, self.previous))
        return (head[:-1] + b"," + self._history[1:]).decode()

    def _encoded(self) -> bytes:
        """The ended rounds and decisions, which most records do not change."""
        newest = self._ended.newest(REMEMBERED)
        digests = {
            digest: None
            for ended in newest.values()
            for digest in (ended.finding, ended.played, ended.stakes)
        }
        at = {digest: place for place, digest in enumerate(digests)}
        ended = [
            (number, one.seq, one.kind, at[one.finding], at[one.played], at[one.stakes], one.memory)
            for number, one in newest.items()
        ]
        decided = dict(list(self._decided.items())[-REMEMBERED:])
        return msgspec.json.encode((list(digests), ended, decided))

    @classmethod
    def resumed(cls, text: str, *, whole: bool, rounds_kept: int = ROUNDS_KEPT) -> ChainRules:
        """Go on with a state; without one, or with one that is none, as with a chain from its middle.

        `whole`: nothing of the chain was read before.
        """
        try:
            state = msgspec.json.decode(text, type=State) if text else None
            rules = cls(whole=whole, rounds_kept=rounds_kept)
            if state is not None:
                rules._resume(state)
        except (msgspec.DecodeError, IndexError):
            return cls(whole=False, rounds_kept=rounds_kept)
        return rules

    def _resume(self, state: State) -> None:
        self.rounds = RoundRules.at(
            state.last_round, state.open_round, known=state.known, unresolved=state.unresolved
        )
        self.finals = None if state.finals < 0 else state.finals
        self._ended.stakes, self.previous = state.stakes, state.previous
        self._decided.update(state.decided)
        digests = state.digests
        self._ended.resume(
            {
                number: Ended(seq, kind, digests[finding], digests[played], digests[stakes], memory)
                for number, seq, kind, finding, played, stakes, memory in state.rounds
            }
        )


def taking_the_place_of(chain: str, seq: int) -> str:
    """The state of a chain that people have accepted though it does not say that it follows this one."""
    rules = ChainRules()
    rules.previous = (chain, seq)
    return rules.state()


def previous_in(state: str) -> tuple[str, int]:
    """The chain before, and its last record, of a chain with this state; ("", 0) where it names none."""
    return ChainRules.resumed(state, whole=False).previous
