"""How far an archived chain is whole and keeps the rules: the same that the stream and the verifier go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from dollyd.client.proof.chain_rules import ChainRules
from dollyd.client.stream.followed_chain import FollowedChain, SignedRecord
from dollyd.client.stream.replay import Asker, BrokenChain, Patience
from dollyd.client.stream.watermark import Watermark
from dollyd.wire.jws import EnvelopeError, parse_envelope
from dollyd.wire.record import Kind, Record
from dollyd.wire.trust import Trust

_RECORD = msgspec.json.Decoder(Record)


@dataclass(frozen=True, slots=True)
class Link:
    """A record as it is archived."""

    seq: int
    prev: str
    digest: str
    envelope: bytes
    """Empty where only its link is left: partitions of old months may be detached."""


def follow(mark: Watermark, links: Sequence[Link], trust: Trust | None, ends: int) -> tuple[Watermark, str]:
    """How far links go on behind a watermark, and why not further; empty for a hole, or their end.

    `trust` knows the persons behind decisions by hand, None where keys are pinned. `ends`: the last record,
    as the chain after it says; 0 where there is none. Signatures were checked when records were archived.
    """
    chain = FollowedChain(mark, Asker(Patience(), Random(0)))  # noqa: S311  asks nobody
    chain.ends = ends
    for link in links:
        if link.seq != chain.order.seq + 1:
            break
        try:
            if link.envelope:
                _take(chain, link, trust)
            else:
                chain = _passed(chain, link)
        except BrokenChain as error:
            return mark, error.why
        mark = chain.watermark
    return mark, ""


def _take(chain: FollowedChain, link: Link, trust: Trust | None) -> None:
    try:
        envelope = parse_envelope(link.envelope)
        record = _RECORD.decode(envelope.payload)
    except (EnvelopeError, msgspec.ValidationError) as error:
        raise BrokenChain(link.seq, f"no record: {error}") from error
    signed = SignedRecord(record, envelope.kid, link.envelope, link.digest)
    if record.kind == Kind.KEY:
        chain.take_key(signed)
    chain.order.take(signed)
    chain.release(trust)


def _passed(chain: FollowedChain, link: Link) -> FollowedChain:
    """Behind a record of which only the link is left: what it said is not known."""
    mark = chain.watermark
    if mark.digest and link.prev != mark.digest:  # none: what came before is lost
        raise BrokenChain(link.seq, f"its prev is not the digest of record {mark.seq}")
    rules = ChainRules(whole=False)
    rules.previous = chain.previous
    passed = Watermark(mark.table, mark.chain, link.seq, link.digest, rules=rules.state())
    follows = FollowedChain(passed, chain.asker)
    follows.ends = chain.ends
    return follows
