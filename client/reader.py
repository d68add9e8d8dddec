"""From messages to records in order: signatures, chains, duplicates, gaps. The stream without its broker.

    message -> envelope -> key -> signature -> chain -> Sequencer -> next()

No I/O and no clock: the stream hands in what it heard and when, and sends the requests that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.client.delivered import Delivered, StreamStats
from dollyd.client.jws import (
    Envelope,
    EnvelopeError,
    Keys,
    key_of_jwk,
    parse_envelope,
    thumbprint,
    verify_envelope,
)
from dollyd.client.key_source import KeySource, source_of
from dollyd.client.replay import (
    Asker,
    BrokenChain,
    ChainError,
    GapError,
    Patience,
    Sequencer,
    StreamError,
    Taken,
)
from dollyd.client.watermark import Watermark
from dollyd.daemon.core.record import NO_PREVIOUS, VERSION, KeyBody, Kind, Record
from dollyd.daemon.topics import NO_TABLES, check_name

REPLAYS_AT_ONCE = 4
"""Tables asked at a time, one request each: the inbox of a link must hold what they bring."""
STRANGERS_MAX = 16
"""Chains asked for on the word of an unknown key: a record not yet heard may have announced it."""
TOLD_MAX = 1000
"""Tables of which trouble is logged, once each."""

Start: TypeAlias = Literal["beginning", "now"]

_LOG = structlog.get_logger(__name__)
_RECORD = msgspec.json.Decoder(Record)
_KEY_BODY = msgspec.json.Decoder(KeyBody)


@dataclass(frozen=True, slots=True)
class Request:
    """Ask table's node for records `first` to `last` of a chain."""

    table: str
    chain: str
    first: int
    last: int
    id: str


@dataclass(frozen=True, slots=True)
class _Signed:
    """A record whose signature is right."""

    record: Record
    kid: str
    envelope: bytes
    digest: str

    @property
    def seq(self) -> int:
        return self.record.seq

    @property
    def prev(self) -> str:
        return self.record.prev


class _Chain:
    """One chain that is followed."""

    def __init__(self, mark: Watermark, asker: Asker) -> None:
        self.table = mark.table
        self.name = mark.chain
        self.began = mark.seq
        self.order: Sequencer[_Signed] = Sequencer(mark.seq, mark.digest)
        self.asker = asker
        self.keys: dict[str, Ed25519PublicKey] = {}
        self.announced: tuple[str, ...] = ()
        self.after: _Chain | None = None
        self.after_seq = 0
        self.broken = False
        self.turn = ""
        """The key whose turn it is to sign; empty until the first record is delivered."""
        for x in mark.keys:
            self.trust({"kty": "OKP", "crv": "Ed25519", "x": x})
            self.turn = next(reversed(self.keys))

    @property
    def proven(self) -> bool:
        """Whether any record of it was signed by a trusted key."""
        return self.broken or self.order.tip > 0

    @property
    def held_up(self) -> bool:
        """Whether the chain before it in its table has not been delivered to its end."""
        return self.after is not None and self.after.order.seq < self.after_seq

    def trust(self, jwk: Mapping[str, Any]) -> None:
        """Take an announced key into the keys of the chain. Raises `EnvelopeError`."""
        key = key_of_jwk(jwk)
        if jwk["x"] not in self.announced:
            self.keys[thumbprint(key)] = key
            self.announced += (str(jwk["x"]),)


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
    ) -> None:
        self.stats = StreamStats()
        self._site = site
        self._trusted = source_of(keys)
        self._start = start
        self._patience = patience or Patience()
        self._rng = rng or Random()  # noqa: S311  spreads retries, keeps no secret
        self._chains = {name: _Chain(mark, self._asker()) for name, mark in watermarks.items()}
        self._ready: dict[str, _Chain] = {}
        """Chains with something to give, the one whose turn it is first."""
        self._incomplete: dict[str, _Chain] = {}
        self._errors: dict[tuple[str, type[StreamError]], StreamError] = {}
        """To be raised; of each sort one a table, so that a flood of forged ones stays small."""
        self._told: set[str] = set()
        """Tables of which it was said that they are signed with a key that is not trusted."""

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
        if self._is_signed(envelope, record, chain):
            signed = _Signed(record, envelope.kid, data, sha256(data).hexdigest())
            chain = chain or self._follow(signed, kept=kept)
            if not chain.broken:
                self._take(chain, signed)

    def _is_in_place(self, record: Record, table: str, kind: str, chain: _Chain | None) -> bool:
        named = check_name(table) and table not in NO_TABLES and check_name(record.chain)
        told = (self._site, table, kind or record.kind)
        own = chain is None or chain.table == table
        return named and own and (record.site, record.table, record.kind) == told

    def _is_signed(self, envelope: Envelope, record: Record, chain: _Chain | None) -> bool:
        key = chain.keys.get(envelope.kid) if chain else None
        key = key or self._trusted.key(envelope.kid, record.node, record.time.utc)
        if key is None:
            self.stats.unsigned += 1
            self._suspect(record, chain)
            return False
        try:
            verify_envelope(envelope, {envelope.kid: key})
        except EnvelopeError as error:
            self.stats.forged += 1
            self._raise(ChainError(record.table, record.chain, record.seq, str(error)))
            return False
        return True

    def _suspect(self, record: Record, chain: _Chain | None) -> None:
        """Nobody trusted signed it. A key announced in a record that we lack would look the same: ask."""
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

    def _follow(self, signed: _Signed, *, kept: bool) -> _Chain:
        """A chain not heard of before: from its first record on, unless the consumer begins now."""
        record = signed.record
        chain = self._begin(record.table, record.chain)
        if self._start == "now" and not self._knows(record.table):
            seq, digest = (record.seq, signed.digest) if kept else (record.seq - 1, record.prev)
            chain = self._begin(record.table, record.chain, seq, digest)
        self._chains[chain.name] = chain
        return chain

    def _begin(self, table: str, name: str, seq: int = 0, digest: str = NO_PREVIOUS) -> _Chain:
        return _Chain(Watermark(table, name, seq, digest), self._asker())

    def _knows(self, table: str) -> bool:
        return any(chain.table == table and chain.proven for chain in self._chains.values())

    def _asker(self) -> Asker:
        return Asker(self._patience, self._rng)

    # -- order ---------------------------------------------------------------------------------------------

    def _take(self, chain: _Chain, signed: _Signed) -> None:
        order = chain.order
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

    def _take_key(self, chain: _Chain, signed: _Signed) -> None:
        """A key enters the chain, or the chain itself begins, maybe after another one."""
        try:
            body = _KEY_BODY.decode(signed.record.body)
            if body.event == "rotated":
                chain.trust(body.jwk)
            elif signed.seq != 1 or thumbprint(key_of_jwk(body.jwk)) != signed.kid:
                raise BrokenChain(signed.seq, "a chain begins once, with the key that signs it")
        except (EnvelopeError, msgspec.ValidationError) as error:
            raise BrokenChain(signed.seq, f"it announces no key: {error}") from error
        before = self._chains.get(body.previous_chain) if isinstance(body.previous_chain, str) else None
        if before is chain:
            raise BrokenChain(signed.seq, "it says that it came before itself")
        if before is not None and before.table == chain.table and isinstance(body.previous_seq, int):
            chain.after, chain.after_seq = before, body.previous_seq
            before.order.note(body.previous_seq)
            if before.order.incomplete:
                self._incomplete[before.name] = before

    def next(self) -> Delivered | None:
        """The next record of any table, None where there is none yet. Raises `GapError` and `ChainError`."""
        if self._errors:
            raise self._errors.pop(next(iter(self._errors)))
        chain = next((chain for chain in self._ready.values() if not chain.held_up), None)
        if chain is None:
            return None
        del self._ready[chain.name]
        try:
            signed = chain.order.release()
            if signed is None:
                return None
            _check(signed)
            _check_turn(chain, signed)
        except BrokenChain as error:
            self._break(chain, error.seq, error.why)
            return self.next()
        if chain.order.ready:
            self._ready[chain.name] = chain  # at the end: tables take turns
        if chain.order.incomplete:
            self._incomplete[chain.name] = chain
        self.stats.delivered += 1
        return Delivered(signed.record, signed.envelope, chain.announced)

    def _break(self, chain: _Chain, seq: int, why: str) -> None:
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
        missing = self._missing()
        for chain, (first, _) in missing:
            chain.asker.look(first, now_s, certain=first <= chain.order.tip)
        asked = {chain.table for chain, _ in missing if chain.asker.waiting}
        due: list[Request] = []
        for chain, (first, last) in missing:
            if chain.asker.expired(now_s):
                self._give_up(chain, first, last)
            elif chain.asker.due(now_s) and chain.table not in asked and len(asked) < REPLAYS_AT_ONCE:
                asked.add(chain.table)
                self.stats.requests += 1
                due.append(Request(chain.table, chain.name, first, last, chain.asker.asked(now_s)))
        return due

    def _missing(self) -> list[tuple[_Chain, tuple[int, int]]]:
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

    def _give_up(self, chain: _Chain, first: int, last: int) -> None:
        if first > chain.order.tip:  # only somebody unknown spoke of more
            if chain.table not in self._told and len(self._told) < TOLD_MAX:
                self._told.add(chain.table)
                _LOG.warning("key_not_trusted", table=chain.table, chain=chain.name, seq=chain.order.hint)
            chain.order.hint = 0
            del self._incomplete[chain.name]
            if not chain.proven:
                del self._chains[chain.name]
        elif not chain.order.ready:  # what comes before the gap is delivered before it is raised
            self.stats.gaps += 1
            self._raise(GapError(chain.table, chain.name, first, last, chain.asker.why))
        else:
            return
        chain.asker.rest()


def _check(signed: _Signed) -> None:
    """What must be true of a record in its place, besides its signature and its link."""
    if signed.record.v != VERSION:
        raise BrokenChain(signed.seq, f"version {signed.record.v} is not known here")
    if signed.seq == 1 and signed.record.kind != Kind.KEY:
        raise BrokenChain(1, "the chain does not begin with its key")


def _check_turn(chain: _Chain, signed: _Signed) -> None:
    """A key that announced another one has signed its last record in this chain."""
    if chain.turn not in {"", signed.kid}:
        raise BrokenChain(signed.seq, f"superseded: {chain.turn} has replaced {signed.kid} in this chain")
    chain.turn = signed.kid
    if signed.record.kind == Kind.KEY:
        chain.turn = thumbprint(key_of_jwk(_KEY_BODY.decode(signed.record.body).jwk))
