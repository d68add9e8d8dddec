"""From messages to records in order: signatures, chains, duplicates, gaps. The stream without its broker.

    message -> envelope -> key -> signature -> chain -> Sequencer -> next()

No I/O and no clock: the stream hands in what it heard and when, and sends the requests that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Literal, TypeAlias

import msgspec

from dollyd.client.proof.chain_rules import NOT_TWO_PERSONS, taking_the_place_of
from dollyd.client.stream.delivered import Delivered, StreamStats
from dollyd.client.stream.followed_chain import FollowedChain, SignedRecord
from dollyd.client.stream.replay import (
    AHEAD_MAX,
    Asker,
    BrokenChain,
    ChainError,
    GapError,
    Patience,
    Sequencer,
    StreamError,
    Taken,
)
from dollyd.client.stream.site_trust import trust_of
from dollyd.client.stream.watermark import Watermark
from dollyd.daemon.host.logger import Logger
from dollyd.wire.judgement import Claim, Verdict
from dollyd.wire.jws import Envelope, EnvelopeError, Keys, parse_envelope, verify_envelope
from dollyd.wire.key_source import KeySource, source_of
from dollyd.wire.lineage import NOBODY
from dollyd.wire.record import NO_PREVIOUS, Kind, Record
from dollyd.wire.successors import why_no_successor
from dollyd.wire.topics import NO_TABLES, check_name

REPLAYS_AT_ONCE = 4
"""Tables asked at a time, one request each: the inbox of a link must hold what they bring."""
STRANGERS_MAX = 16
"""Chains asked for on the word of an unknown key: a record not yet heard may have announced it."""
TOLD_MAX = 1000
"""Tables of which trouble is logged, once each."""

_CURABLE = frozenset({Verdict.UNKNOWN, Verdict.NOT_YET})
"""Verdicts that may change by what is still to be heard."""

Start: TypeAlias = Literal["beginning", "now"]

_LOG = Logger(__name__)
_RECORD = msgspec.json.Decoder(Record)


@dataclass(frozen=True, slots=True)
class Request:
    """Ask table's node for records `first` to `last` of a chain."""

    table: str
    chain: str
    first: int
    last: int
    id: str


class Reader:
    """Takes messages, gives records in order, says what to ask for."""

    def __init__(
        self,
        site: str,
        keys: Keys | KeySource,
        watermarks: Mapping[str, Watermark],
        *,
        start: Start = "beginning",
        patience: Patience | None = None,
        rng: Random | None = None,
        any_chain: bool = False,
    ) -> None:
        """`any_chain`: give also chains that do not fit behind those of their table, for a witness."""
        self.stats = StreamStats()
        self._any_chain = any_chain
        self._site = site
        self._trusted = source_of(keys)
        self._start = start
        self._patience = patience or Patience()
        self._rng = rng or Random()  # noqa: S311  spreads retries, keeps no secret
        self._chains = {name: FollowedChain(mark, self._asker()) for name, mark in watermarks.items()}
        for chain in self._chains.values():
            self._end_the_one_before(chain)
        self._ready: dict[str, FollowedChain] = {}
        """Chains with something to give, the one whose turn it is first."""
        self._incomplete: dict[str, FollowedChain] = {}
        self._errors: dict[tuple[str, type[StreamError]], StreamError] = {}
        """To be raised; of each sort one a table, so that a flood of forged ones stays small."""
        self._told: set[tuple[str, Verdict]] = set()
        """Tables of which it was said that they are signed with a key that does not count, and why."""

    # -- what is heard -------------------------------------------------------------------------------------

    def hear(self, table: str, data: bytes, *, kind: str = "", kept: bool = False) -> None:
        """Take what came on a topic of `table`, which names the `kind` where it is a topic of records.

        `kept`: the broker kept it (`last`, `checkpoint`), so it may be from before.
        """
        if kept and kind:
            self.stats.retained += 1
            return
        try:
            envelope = parse_envelope(data)
            record = _RECORD.decode(envelope.payload)
        except (EnvelopeError, msgspec.ValidationError):
            self.stats.unsigned += 1
            return
        chain = self._chains.get(record.chain)
        if not self._is_in_place(record, table, kind, chain):
            self.stats.misplaced += 1
            return
        if chain is None and self._is_past(record, kept=kept):
            self.stats.before += 1
            return
        signed = self._judge(envelope, data, record, chain)
        if signed is not None:
            chain = chain or self._follow(signed, kept=kept)
            if not chain.broken:
                self._take(chain, signed)

    def _is_in_place(self, record: Record, table: str, kind: str, chain: FollowedChain | None) -> bool:
        named = check_name(table) and table not in NO_TABLES and check_name(record.chain)
        told = (self._site, table, kind or record.kind)
        own = chain is None or chain.table == table
        return named and own and (record.site, record.table, record.kind) == told

    def _is_past(self, record: Record, *, kept: bool) -> bool:
        """Of a chain from before those that this consumer began with; `checkpoint` keeps one for a while."""
        others = [chain for chain in self._chains.values() if chain.table == record.table and chain.begun]
        left_behind = kept and record.kind == Kind.CHECKPOINT and self._knows(record.table)
        return left_behind or any(chain.previous[0] == record.chain for chain in others)

    def _judge(
        self, envelope: Envelope, data: bytes, record: Record, chain: FollowedChain | None
    ) -> SignedRecord | None:
        """The record where its signature counts, None where not.

        All is heard for the first time: of a key that is revoked by now only what the revocation names
        counts. What came before that was known stays.
        """
        digest, announced = sha256(data).hexdigest(), chain.announced if chain else NOBODY
        judged = self._trusted.judge(Claim.of(record, envelope.kid, digest, announced, live=True))
        verdict, until = judged.verdict, judged.until
        if until is not None and until.seq - (chain.order.seq if chain else 0) > AHEAD_MAX:
            verdict = Verdict.REVOKED  # what would prove it is too far away to be held
        try:
            verify_envelope(envelope, {} if judged.key is None else {envelope.kid: judged.key})
        except EnvelopeError as error:
            if verdict is Verdict.VALID:
                self.stats.forged += 1
                self._raise(ChainError(record.table, record.chain, record.seq, str(error)))
                return None
            verdict = Verdict.UNKNOWN
        if verdict is Verdict.VALID:
            return SignedRecord(record, envelope.kid, data, digest, until)
        self._refuse(record, envelope.kid, verdict, chain)
        return None

    def _refuse(self, record: Record, kid: str, verdict: Verdict, chain: FollowedChain | None) -> None:
        self.stats.unsigned += 1
        if chain is not None:
            chain.refuse(record.seq, verdict, kid)
        if verdict is not Verdict.UNKNOWN:  # its signature is right
            self._tell(record.table, record.chain, record.seq, kid, verdict)
        if verdict in _CURABLE:
            self._suspect(record, chain)

    def _tell(self, table: str, chain: str, seq: int, kid: str, verdict: Verdict) -> None:
        if (table, verdict) not in self._told and len(self._told) < TOLD_MAX:
            self._told.add((table, verdict))
            _LOG.warning("key_not_trusted", table=table, chain=chain, seq=seq, kid=kid, why=str(verdict))

    def _suspect(self, record: Record, chain: FollowedChain | None) -> None:
        """Nobody trusted signed it. A key announced in a record that we lack would look the same: ask.

        So would records for which the trust file has to be corrected.
        """
        if chain is None:
            strangers = [known for known in self._chains.values() if not known.proven]
            if len(strangers) >= STRANGERS_MAX or any(other.table == record.table for other in strangers):
                return
            if self._start == "now" and not self._knows(record.table):
                return
            chain = self._chains[record.chain] = self._begin(record.table, record.chain)
        if record.seq > chain.order.tip and not chain.broken:
            chain.order.hint = record.seq
            self._incomplete[chain.name] = chain

    def _follow(self, signed: SignedRecord, *, kept: bool) -> FollowedChain:
        """A chain not heard of before: from its first record on, unless the consumer begins now."""
        record = signed.record
        chain = self._begin(record.table, record.chain)
        if self._start == "now" and not self._knows(record.table):
            seq, digest = (record.seq, signed.digest) if kept else (record.seq - 1, record.prev)
            chain = self._begin(record.table, record.chain, seq, digest, signed.kid)
        self._chains[chain.name] = chain
        for other in self._chains.values():
            if other.claims[0] == chain.name and other.table == chain.table:
                self._wait_for(other, chain)
        return chain

    def _begin(
        self, table: str, name: str, seq: int = 0, digest: str = NO_PREVIOUS, kid: str = ""
    ) -> FollowedChain:
        return FollowedChain(Watermark(table, name, seq, digest, kid=kid), self._asker())

    def _knows(self, table: str, but: FollowedChain | None = None) -> bool:
        chains = (chain for chain in self._chains.values() if chain is not but)
        return any(chain.table == table and chain.proven for chain in chains)

    def _asker(self) -> Asker:
        return Asker(self._patience, self._rng)

    # -- order ---------------------------------------------------------------------------------------------

    def _take(self, chain: FollowedChain, signed: SignedRecord) -> None:
        order = chain.order
        if signed.until is not None:
            order.note(signed.until.seq)
        try:
            taken = order.take(signed)
            if taken is not Taken.DUPLICATE and signed.record.kind == Kind.KEY:
                self._take_key(chain, signed)
        except BrokenChain as error:
            self._break(chain, error.seq, error.why)
            return
        match taken:
            case Taken.READY:
                self._ready[chain.name] = chain
            case Taken.DUPLICATE if signed.seq <= chain.began:
                self.stats.before += 1
            case Taken.DUPLICATE:
                self.stats.duplicates += 1
            case Taken.AHEAD:
                self.stats.ahead += 1
            case Taken.BEYOND:
                self.stats.beyond += 1
        if order.incomplete:
            self._incomplete[chain.name] = chain

    def _take_key(self, chain: FollowedChain, signed: SignedRecord) -> None:
        """A key enters the chain, or the chain itself begins, maybe after another one."""
        body = chain.take_key(signed)
        name, seq = body.previous_chain, body.previous_seq
        if signed.seq > 1 or not isinstance(name, str) or not isinstance(seq, int):
            return
        chain.claims = (name, seq)
        before = self._chains.get(name)
        if before is chain:
            raise BrokenChain(signed.seq, "it says that it came before itself")
        if before is not None and before.table != chain.table:
            raise BrokenChain(signed.seq, f"the chain before it is one of table {before.table}")
        if before is None and check_name(name) and self._knows(chain.table, but=chain):
            before = self._chains[name] = self._begin(chain.table, name)  # we were away all the while
        if before is not None:
            self._wait_for(chain, before)

    def _wait_for(self, chain: FollowedChain, before: FollowedChain) -> None:
        """The chain before it comes first, to its end."""
        chain.after, chain.after_seq = before, chain.claims[1]
        before.order.note(chain.after_seq)
        if before.order.incomplete:
            self._incomplete[before.name] = before

    def _check_successor(self, chain: FollowedChain) -> None:
        """Whether a chain may begin, behind those of its table. Raises `BrokenChain`."""
        if chain.order.seq or chain.previous[0]:
            return  # its beginning is lost, or people have accepted it: what came before it is not asked
        known = [
            (other.name, other.order.seq)
            for other in self._chains.values()
            if other.table == chain.table and other.begun and not other.ends
        ]
        if why := why_no_successor(chain.claims, known):
            chain.intrudes = True
            raise BrokenChain(1, why)

    def _end_the_one_before(self, chain: FollowedChain) -> None:
        name, seq = chain.previous
        before = self._chains.get(name)
        if before is not None and before.table == chain.table:
            before.ends = seq

    def accept_chain(self, error: ChainError) -> Watermark | None:
        """Take a chain that was refused since it does not fit behind its table's others, in their place.

        None, and nothing is changed, where it was refused for another reason, or was not refused.
        """
        refused = self._chains.get(error.chain)
        if refused is None or not refused.intrudes:
            return None
        known = [one for one in self._chains.values() if one.table == refused.table and one.begun]
        newest = next(one for one in reversed(known) if not one.ends)
        mark = Watermark(
            refused.table,
            refused.name,
            0,
            NO_PREVIOUS,
            rules=taking_the_place_of(newest.name, newest.order.seq),
        )
        chain = self._chains[refused.name] = FollowedChain(mark, self._asker())
        chain.order.note(error.seq)
        self._incomplete[chain.name] = chain
        return mark

    def next(self) -> Delivered | None:
        """The next record of any table, None where there is none yet. Raises `GapError` and `ChainError`."""
        if self._errors:
            raise self._errors.pop(next(iter(self._errors)))
        chain = next((chain for chain in self._ready.values() if not chain.held_up), None)
        if chain is None:
            return None
        del self._ready[chain.name]
        first, before, trust = not chain.begun, chain.watermark, trust_of(self._trusted)
        try:
            if first and not self._any_chain:
                self._check_successor(chain)
            delivered = chain.release(trust)
        except BrokenChain as error:
            if trust is not None and error.why.startswith(NOT_TWO_PERSONS):
                chain.before_doubt = (before, trust.version)
            self._break(chain, error.seq, error.why)
            return self.next()
        if delivered is None:
            return None
        if first:
            chain.begun = True
            self._end_the_one_before(chain)
        if chain.order.ready:
            self._ready[chain.name] = chain  # at the end: tables take turns
        if chain.order.incomplete:
            self._incomplete[chain.name] = chain
        self.stats.delivered += 1
        return delivered

    def _look_again(self) -> None:
        """A newer trust file may know persons whom the last one did not."""
        trust = trust_of(self._trusted)
        for name, chain in tuple(self._chains.items()):
            if trust is None or chain.before_doubt is None or chain.before_doubt[1] == trust.version:
                continue
            again = self._chains[name] = FollowedChain(chain.before_doubt[0], self._asker())
            again.ends = chain.ends
            again.order.note(again.order.seq + 1)
            self._incomplete[name] = again

    def _break(self, chain: FollowedChain, seq: int, why: str) -> None:
        chain.broken = True
        self._ready.pop(chain.name, None)
        self._incomplete.pop(chain.name, None)
        chain.order = Sequencer(chain.order.seq, chain.order.digest)  # what was held is worth nothing
        self._raise(ChainError(chain.table, chain.name, seq, why))

    def _raise(self, error: StreamError) -> None:
        self._errors.setdefault((error.table, type(error)), error)

    # -- what is missing -----------------------------------------------------------------------------------

    def requests(self, now_s: float) -> list[Request]:
        """What to ask for now; gaps that have waited too long are raised by `next` instead."""
        self._look_again()
        missing = self._missing()
        for chain, (first, _) in missing:
            chain.asker.look(first, now_s, certain=first <= chain.order.tip)
        asked = {chain.table for chain, _ in missing if chain.asker.waiting}
        due: list[Request] = []
        for chain, (first, last) in missing:
            if chain.asker.expired(now_s):
                self._give_up(chain, first, last, now_s)
            elif chain.asker.due(now_s) and chain.table not in asked and len(asked) < REPLAYS_AT_ONCE:
                asked.add(chain.table)
                self.stats.requests += 1
                chain.forget_refusals()
                due.append(Request(chain.table, chain.name, first, last, chain.asker.asked(now_s)))
        return due

    def _missing(self) -> list[tuple[FollowedChain, tuple[int, int]]]:
        """What each chain lacks and could hold; those that lack nothing are looked at no more."""
        missing = []
        for chain in tuple(self._incomplete.values()):
            part = chain.order.missing()
            if part is not None:
                missing.append((chain, part))
                continue
            chain.asker.rest()
            if not chain.order.incomplete:
                del self._incomplete[chain.name]
        return missing

    def ended(self, chain: str, id_: str, problem: str, now_s: float) -> None:
        """The answer to a request is complete."""
        asked = self._incomplete.get(chain)
        missing = asked.order.missing() if asked else None
        if asked and missing:
            asked.asker.look(missing[0], now_s, certain=missing[0] <= asked.order.tip)
            asked.asker.ended(id_, problem, now_s)
        elif asked:
            asked.asker.rest()  # all that could be held has come: the next part is asked for at once

    def restart(self) -> None:
        """There is a new link: no answer to older requests is waited for, every gap has its time anew."""
        for chain in self._incomplete.values():
            chain.asker.rest()

    def accept_loss(self, gap: GapError) -> Watermark | None:
        """Go on behind a gap that was raised; gives the watermark that says so.

        None, and nothing is changed, where these records are not, or not all, what its chain lacks now.
        """
        chain = self._chains.get(gap.chain)
        if chain is None or chain.broken or not _lacks(chain.order, gap):
            return None
        chain.order.skip(gap.last)
        if chain.order.ready:
            self._ready[chain.name] = chain
        told = self._errors.get((chain.table, GapError))
        if told is not None and told.chain == chain.name:
            del self._errors[(chain.table, GapError)]
        return chain.watermark

    def _give_up(self, chain: FollowedChain, first: int, last: int, now_s: float) -> None:
        if first > chain.order.tip:  # only somebody unknown spoke of more
            self._tell(chain.table, chain.name, chain.order.hint, "", Verdict.UNKNOWN)
            chain.order.hint = 0
            del self._incomplete[chain.name]
            if not chain.proven:
                del self._chains[chain.name]
        elif (
            not chain.order.ready or chain.untied
        ):  # what comes before the gap is delivered before it is raised
            self.stats.gaps += 1
            last = min(last, chain.order.hole_end)
            self._raise(GapError(chain.table, chain.name, first, last, chain.why_missing(first, last)))
        else:
            return
        chain.asker.give_up(now_s)


def _lacks(order: Sequencer[SignedRecord], gap: GapError) -> bool:
    """Whether a gap is what comes next, and nothing of it has come."""
    return not order.ready and order.seq + 1 == gap.first <= gap.last <= order.hole_end
