"""Offline verification: that nothing was changed, removed, added or moved, and that rounds keep the rules.

Feed it the envelopes of whole chains, of one or many tables mixed, in their order. What no chain can show of
itself is whether records are missing from its end: the chain that came after it says where it ended; of the
newest compare `Report.heads` with what was published last.

What an envelope says by itself is read by `client.reading`, in as many processes as wanted; everything that
depends on the order of records is here, in one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.client.proof.chain_rules import KINDS, ChainRules, Persons
from dollyd.client.proof.facts import Facts
from dollyd.client.proof.parallel import read_all
from dollyd.client.proof.reading import DECISIONS, Read, signed_by
from dollyd.client.proof.sources import JournalFile, SourceError
from dollyd.wire.judgement import Position, Verdict
from dollyd.wire.jws import EnvelopeError, Keys, key_of_jwk, parse_envelope, thumbprint
from dollyd.wire.lineage import Lineage
from dollyd.wire.record import FINAL_KINDS, NO_PREVIOUS, Kind
from dollyd.wire.successors import Whole, wrong_successors
from dollyd.wire.trust import Trust

PROBLEMS_MAX = 10
"""A verification ends when it has found as many."""
MID_CHAIN, SO_OF_MORE = "begins in mid-chain at record ", "; and so of "
PINNED, ANNOUNCED, NOT_PINNED = "pinned", "announced", "not pinned"
_WORDS = (PINNED, ANNOUNCED, NOT_PINNED, *Verdict)
"""What is said of a key; where it is more than one, the last of them."""
BELIEVED_BY_DATE = (
    "revoked at {}, and the trust file does not name the records up to which it counts: whether what it"
    " signed with an earlier date was dated back, nobody has said"
)
NOT_CHECKED_FAST = (
    "not checked (fast): signatures but those of heads, checkpoints and keys; bodies, captures, rules and"
    " the structure of the file"
)
PERSONS_NOT_CHECKED = (
    "the signatures of the persons behind results by hand and corrections were not checked: that takes the"
    " site's trust file"
)

CaptureOf: TypeAlias = Callable[[str, int], bytes | None]
"""The raw capture behind a record (chain, seq), None where it is not at hand."""
Judged: TypeAlias = Callable[[bytes, Read, list[str]], None]
"""Told of each envelope when it was judged: its bytes, what it says, and all that is wrong with it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where. `at` counts envelopes from 1 as they came, 0: it is the file's.

    No table: the record cannot be read.
    """

    at: int
    table: str
    chain: str
    seq: int
    why: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends."""

    table: str
    seq: int
    digest: str
    """SHA-256 of the last envelope, hex."""
    open_round: int
    """The round without a final record, 0 for none."""
    first: int = 1
    """Where it starts; more than 1 where only a part of it was to be verified."""
    site: str = ""


@dataclass(slots=True)
class Report:
    """What was verified."""

    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    """Rounds with a final record."""
    heads: dict[str, Head] = field(default_factory=dict)
    """By chain."""
    keys: dict[str, str] = field(default_factory=dict)
    """Keys that signed, by `kid`: `pinned`, `announced` (by a pinned one), `not pinned`, `superseded` (pinned
    or announced, and replaced in its chain; no problem as such), or the trust file's word: `revoked` (itself,
    or the one that announced it), `unknown` (another node's), `not-yet`, `expired`, each of which is a
    problem."""
    captures: int = 0
    """Raw captures that were at hand and are what was signed."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not there or not checked without being wrong, one line each."""
    rules: dict[str, set[str]] = field(default_factory=lambda: {"rulebooks": set(), "profiles": set()})
    """Digests of the rulebooks and profiles by which was decided."""
    checkpoints: dict[tuple[str, int], str] = field(default_factory=dict)
    """By chain and seq the digest of each checkpoint's envelope, hex: what a witness has seen."""
    facts: Facts = field(default_factory=Facts)

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    @property
    def tables(self) -> list[str]:
        """Tables seen."""
        return sorted({head.table for head in self.heads.values()})

    def add_problem(self, why: str) -> None:
        """Something is wrong with the file, and not with a record."""
        self.problems.append(Problem(0, "", "", 0, why))


@dataclass(frozen=True, slots=True)
class Start:
    """Where a part of a chain begins: with record `seq`, whose `prev` is this.

    The records that announce its keys are before it: `keys` are taken instead where none are trusted, and are
    reported as not pinned.
    """

    seq: int
    prev: str
    keys: Keys = field(default_factory=dict)


def verify_envelopes(
    envelopes: Iterable[bytes],
    keys: Keys | Trust | None = None,
    capture_of: CaptureOf | None = None,
    *,
    starts: Mapping[str, Start] | None = None,
    jobs: int = 1,
    fast: bool = False,
    part: bool = False,
    judged: Judged | None = None,
) -> Report:
    """Verify envelopes in their order.

    `keys` are the keys trusted, by themselves or by a trust file, which also says of which node and when;
    None takes each chain's word for its key, and reports it as `not pinned`.
    `starts` names the chains of which only a part is given, and where it begins; with `part` every chain may
    be one, from its first record that is here. `jobs`: processes that check
    signatures; the report does not depend on it. `fast` trusts the chain from signed heads backwards.
    Whatever is wrong with the input is a `Problem`, never an exception.
    """
    verifier = _Verifier(keys, capture_of, starts or {}, fast=fast, part=part)
    try:
        for data, found in read_all(envelopes, verifier.known, jobs, fast=fast):
            verifier.take(data, found)
            if judged is not None:
                judged(data, found, verifier.wrong)
            if len(verifier.problems) >= PROBLEMS_MAX:
                break
    except SourceError as error:
        verifier.add_problem(str(error))
    return verifier.report()


def verify_journal(
    path: Path,
    keys: Keys | Trust | None = None,
    *,
    jobs: int = 1,
    fast: bool = False,
    judged: Judged | None = None,
) -> Report:
    """Verify a journal file, and the captures in it. Read-only; the daemon may be running."""
    try:
        with closing(JournalFile(path)) as journal:
            envelopes = journal.envelopes(check_structure=not fast)
            starts = {chain: Start(seq, prev) for chain, (seq, prev) in journal.starts().items()}
            return verify_envelopes(
                envelopes, keys, journal.capture, starts=starts, jobs=jobs, fast=fast, judged=judged
            )
    except SourceError as error:
        report = Report()
        report.add_problem(str(error))
        return report


# --- one record after the other --------------------------------------------------------------------


@dataclass(slots=True)
class _Chain:
    """What the next record of a chain must fit."""

    table: str
    site: str
    keys: dict[str, Ed25519PublicKey]
    announced: Lineage = field(default_factory=Lineage)
    turn: str = ""
    """The key whose turn it is to sign, empty before the first record."""
    replaced: dict[str, int] = field(default_factory=dict)
    """Keys whose turn is over, by `kid`, and the record that says so."""
    begins: bool = False
    """Whether its first record was met."""
    seq: int = 0
    digest: str = NO_PREVIOUS
    first: int = 1
    rules: ChainRules = field(default_factory=ChainRules)
    last: tuple[bytes, Read] | None = None
    """Its newest record."""
    until: Position | None = None
    """The record to which it must lead, since a key that signed it is revoked."""


class _Verifier:
    def __init__(
        self,
        trusted: Keys | Trust | None,
        capture_of: CaptureOf | None,
        starts: Mapping[str, Start],
        *,
        fast: bool,
        part: bool,
    ) -> None:
        self.problems: list[Problem] = []
        self.wrong: list[str] = []
        """With the newest envelope; what is told once a key only is among it for each."""
        self._file = trusted if isinstance(trusted, Trust) else None
        pinned = trusted.node_keys() if isinstance(trusted, Trust) else trusted
        self.known: dict[str, Ed25519PublicKey] = dict(pinned or {})
        """Every key met, trusted or not, by `kid`, which is its thumbprint: so that others may check."""
        self._pinned = pinned
        self._capture_of = capture_of
        self._starts = starts
        self._fast = fast
        self._part = part
        self._chains: dict[str, _Chain] = {}
        self._report = Report(problems=self.problems)
        self._refused: dict[tuple[str, str], tuple[int, str, int]] = {}
        """By key and verdict: which problem tells of it, in which words, and of how many more records."""

    def add_problem(self, why: str, found: Read | None = None) -> None:
        table, chain, seq = (found.table, found.chain, found.seq) if found else ("", "", 0)
        self.problems.append(Problem(self._report.records, table, chain, seq, why))
        self.wrong.append(why)

    def report(self) -> Report:
        report = self._report
        if not report.records and not self.problems:
            self.add_problem("there is nothing to verify")  # emptied is not proven
        for name, chain in self._chains.items():
            if self._fast and chain.last is not None:
                self._check_head(*chain.last, chain)
            rounds = chain.rules.rounds
            head = Head(chain.table, chain.seq, chain.digest, rounds.open_round, chain.first, chain.site)
            report.heads[name] = head
            if chain.first > 1:
                report.notes.append(f"table {chain.table}, chain {name}: starts at seq {chain.first}")
            if chain.until is not None:
                told = f"table {chain.table}, chain {name}: {Verdict.REVOKED}: a key of it counts up to"
                self.add_problem(f"{told} record {chain.until.seq}, to which what is here does not lead")
        self._check_successors()
        report.rounds = sum(report.kinds[kind] for kind in FINAL_KINDS)
        if self._fast:
            report.notes.append(NOT_CHECKED_FAST)
        return report

    def _check_successors(self) -> None:
        """Compare where chains end with what the first records of others say of that."""
        chains = {
            name: Whole(chain.table, chain.seq, chain.begins, chain.rules.previous)
            for name, chain in self._chains.items()
        }
        for misfit in wrong_successors(chains):
            where = f"table {chains[misfit.chain].table}, chain {misfit.chain}"
            self.add_problem(f"{where}: {misfit.why}")
        for name, whole in chains.items():
            previous, end = whole.previous
            if previous and previous not in chains:
                told = f"goes on after record {end} of chain {previous}, which is not here"
                self._report.notes.append(f"table {whole.table}, chain {name}: {told}")

    def take(self, data: bytes, found: Read) -> None:
        self._report.records += 1
        self.wrong = []
        if found.problem:
            self.add_problem(found.problem)
            return
        chain = self._chains.get(found.chain) or self._new_chain(found)
        signed = self._check_signature(data, found, chain)
        if self._check_place(found, chain, signed):
            chain.seq, chain.digest, chain.last = found.seq, found.digest, (data, found)
            self._check_until(found, chain)
            self._check_content(found, chain)

    def _new_chain(self, found: Read) -> _Chain:
        chain = _Chain(found.table, found.site, dict(self._pinned or {}))
        start = self._starts.get(found.chain) or (Start(found.seq, found.prev) if self._part else None)
        if start is not None and start.seq > 1:
            chain.seq, chain.digest, chain.first = start.seq - 1, start.prev, start.seq
            chain.rules = ChainRules(whole=False)
            if self._pinned is None:
                chain.keys.update(start.keys)
                self.known.update(start.keys)
        self._chains[found.chain] = chain
        return chain

    def _check_signature(self, data: bytes, found: Read, chain: _Chain) -> bool:
        """Whether a key of the chain has signed it; in fast mode, of most records, whether it is said to."""
        left_to_chain = self._fast and found.kind not in _SIGNED_STATEMENTS
        if left_to_chain and found.kid == chain.turn and self._file is None:
            return True
        try:
            if self._pinned is None and chain.seq == 0:
                self._trust(found, chain)
            _check_known(found, chain)
            if not left_to_chain:
                self._check_signed(data, found, chain)
            self._judge_signer(found, chain)
            _check_turn(found, chain)
            chain.turn = self._trust(found, chain) if found.kind == Kind.KEY else found.kid
            if chain.turn != found.kid:
                self._replace(found, chain)
        except EnvelopeError as error:
            self._refuse(error, found)
            return False
        return True

    def _refuse(self, error: EnvelopeError, found: Read) -> None:
        """What the trust file says of a key is told once, with the number of records that it is said of."""
        if error.reason not in _SAID_ONCE:
            self.add_problem(str(error), found)
            return
        at, why, more = self._refused.get((found.kid, error.reason), (len(self.problems), str(error), -1))
        self._refused[found.kid, error.reason] = at, why, more + 1
        if more < 0:
            self.add_problem(why, found)
        else:
            self.wrong.append(str(error))
            self.problems[at] = replace(self.problems[at], why=f"{why}{SO_OF_MORE}{more + 1} more records")

    def _check_signed(self, data: bytes, found: Read, chain: _Chain) -> None:
        if found.signed is None:  # nobody had its key when it was read
            found.signed = signed_by(parse_envelope(data), chain.keys)
        if not found.signed:
            raise EnvelopeError("signature", f"the signature is not that of key {found.kid}")

    def _check_until(self, found: Read, chain: _Chain) -> None:
        """Whether the chain comes to the record that the revocation of one of its keys names."""
        until = chain.until
        if until is not None and until.seq == found.seq:
            chain.until = None
            if until.head != found.digest:
                why = (
                    f"the revocation of a key of this chain names a record {found.seq} of digest {until.head}"
                )
                self.add_problem(f"{Verdict.REVOKED}: {why}", found)

    def _check_head(self, data: bytes, found: Read, chain: _Chain) -> None:
        try:
            self._check_signed(data, found, chain)
        except EnvelopeError as error:
            self.add_problem(f"the head of the chain: {error}", found)

    def _judge_signer(self, found: Read, chain: _Chain) -> None:
        """Note what the signer is. Raises `EnvelopeError` where the trust file is against it."""
        kid = found.kid
        if self._pinned is None:
            self._say(kid, NOT_PINNED)
            return
        verdict = Verdict.VALID
        if self._file is not None:
            judged = self._file.judge(found.claim(chain.announced))
            verdict = judged.verdict if found.site == self._file.site else Verdict.UNKNOWN
            if verdict is Verdict.VALID:
                chain.until = judged.until or chain.until
            key = self._file.nodes.get(kid)
            if verdict is Verdict.VALID and key is not None and key.revoked and key.last is None:
                self._note(f"key {kid}: {BELIEVED_BY_DATE.format(key.revoked)}")
        good = PINNED if kid in self._pinned else ANNOUNCED
        self._say(kid, good if verdict is Verdict.VALID else verdict)
        if verdict is not Verdict.VALID:
            whom = f"key {kid}" if good == PINNED else f"what announced key {kid}, which it does not name"
            why = f"the trust file says so of {whom}, node {found.node}, at {found.utc}"
            raise EnvelopeError(verdict, why)

    def _say(self, kid: str, word: str) -> None:
        said = self._report.keys.get(kid)
        if said != word:
            self._report.keys[kid] = str(max(said or word, word, key=_WORDS.index))

    def _replace(self, found: Read, chain: _Chain) -> None:
        """A record hands the turn to another key than its signer's."""
        chain.replaced[found.kid] = found.seq
        chain.replaced.pop(chain.turn, None)
        if self._pinned is not None:
            self._say(found.kid, Verdict.SUPERSEDED)
        if found.seq == 1:
            raise EnvelopeError("signer", f"the chain begins with key {chain.turn}, which did not sign")

    def _trust(self, found: Read, chain: _Chain) -> str:
        """Take the key that a `key` record announces into the keys of its chain; gives its `kid`."""
        if found.kind != Kind.KEY:
            raise EnvelopeError("no-key", "the chain does not begin with its key, and none was given")
        if found.jwk is None:
            raise EnvelopeError("jwk", f"no key in the body: {found.body_problem}")
        key = key_of_jwk(found.jwk)
        kid = thumbprint(key)
        chain.keys[kid] = self.known[kid] = key
        if kid != found.kid:
            chain.announced.add(key, found.kid)
        return kid

    def _check_place(self, found: Read, chain: _Chain, signed: bool) -> bool:
        """Whether the chain goes on with this record."""
        expected = chain.seq + 1
        if found.seq < expected:
            self.add_problem(f"comes again or too late: the chain is at record {chain.seq}", found)
            return False
        if found.seq > expected:
            missing = f"records {expected} to {found.seq - 1} are missing before it"
            if chain.last is None:
                missing = f"{MID_CHAIN}{found.seq}: {missing}"
                chain.rules.lose()  # or each round would be told as one that was never opened
            self.add_problem(missing, found)
            return signed  # a number that nobody signed moves nothing
        if found.prev != chain.digest:
            self.add_problem(f"its prev is not the digest of record {chain.seq}", found)
        return True

    def _check_content(self, found: Read, chain: _Chain) -> None:
        if found.table != chain.table or found.site != chain.site:
            self.add_problem(f"the chain belongs to table {chain.table} of site {chain.site}", found)
        judged = chain.rules.take(found, self._file, fast=self._fast)
        for why in judged.problems:
            self.add_problem(why, found)
        for note in judged.unchecked:
            self._note(note)
        if judged.persons is Persons.FORM:
            self._note(PERSONS_NOT_CHECKED)
        if found.kind not in KINDS:
            return
        self._report.facts.take(found)
        self._report.kinds[found.kind] += 1
        chain.begins = chain.begins or found.seq == 1
        if found.kind == Kind.CHECKPOINT:
            self._report.checkpoints[(found.chain, found.seq)] = found.digest
        if found.kind in DECISIONS and not self._fast:
            self._check_capture(found)

    def _note(self, note: str) -> None:
        if note not in self._report.notes:
            self._report.notes.append(note)

    def _check_capture(self, found: Read) -> None:
        """Compare the raw capture with what was signed of it."""
        if found.body_problem:
            return
        if found.rulebook:
            self._report.rules["rulebooks"].add(found.rulebook)
            self._report.rules["profiles"].add(found.profile)
        if self._capture_of is not None and found.capture:
            capture = self._capture_of(found.chain, found.seq)
            if capture is not None and sha256(capture).hexdigest() != found.capture:
                self.add_problem("the raw capture is not the one that was signed", found)
            elif capture is not None:
                self._report.captures += 1


_SAID_ONCE = (frozenset(Verdict) - {Verdict.SUPERSEDED}) | {"unknown-key"}
"""Reasons that are told once a key."""


def _check_known(found: Read, chain: _Chain) -> None:
    if found.kid not in chain.keys:
        why = f"kid {found.kid} is none of the {len(chain.keys)} keys given"
        raise EnvelopeError("unknown-key", why)


def _check_turn(found: Read, chain: _Chain) -> None:
    if found.kid in chain.replaced:
        why = f"key {found.kid} was replaced by {chain.turn} in record {chain.replaced[found.kid]}"
        raise EnvelopeError(Verdict.SUPERSEDED, why)
    if chain.turn not in ("", found.kid):
        raise EnvelopeError("signer", f"it is the turn of key {chain.turn}, not of {found.kid}")


_SIGNED_STATEMENTS = frozenset({Kind.KEY, Kind.CHECKPOINT})
"""Their signatures are checked also where all others are left to the chain."""
