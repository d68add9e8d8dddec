"""One chain as a reader follows it: what is held of it, which keys count, and whose turn it is to sign."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dollyd.client.proof.chain_rules import ChainRules
from dollyd.client.proof.reading import read_record
from dollyd.client.stream.delivered import Delivered
from dollyd.client.stream.replay import Asker, BrokenChain, Sequencer
from dollyd.client.stream.watermark import Watermark
from dollyd.wire.judgement import Position, Verdict, refusal
from dollyd.wire.jws import EnvelopeError, key_of_jwk, public_jwk, thumbprint
from dollyd.wire.lineage import Lineage, key_of_x
from dollyd.wire.record import KeyBody, Kind, Record
from dollyd.wire.successors import why_behind_its_end
from dollyd.wire.trust import Trust

ROUNDS_HELD = 10_000
"""Ended rounds remembered of each chain: days of play, two megabytes."""
_KEY_BODY = msgspec.json.Decoder(KeyBody)


@dataclass(frozen=True, slots=True)
class SignedRecord:
    """A record whose signature is right."""

    record: Record
    kid: str
    envelope: bytes
    digest: str
    until: Position | None = None
    """See `Judgement`."""

    @property
    def seq(self) -> int:
        """Its number in the chain."""
        return self.record.seq

    @property
    def prev(self) -> str:
        """Digest of the record before it."""
        return self.record.prev


class FollowedChain:
    """A chain from its watermark on. Raises `EnvelopeError` where that holds no keys."""

    def __init__(self, mark: Watermark, asker: Asker) -> None:
        self.table = mark.table
        self.name = mark.chain
        self.began = mark.seq
        self.order: Sequencer[SignedRecord] = Sequencer(mark.seq, mark.digest)
        self.asker = asker
        self.announced = Lineage.of(mark.kid, mark.keys)
        """Keys announced in what was heard, also where that is not delivered yet."""
        self.after: FollowedChain | None = None
        self.after_seq = 0
        self.broken = False
        self.intrudes = False
        """It was refused since it does not fit behind the other chains of its table."""
        self.before_doubt: tuple[Watermark, int] | None = None
        """Where it stood before a record whose persons were not known, and to which trust file's version."""
        self.begun = mark.seq > 0
        """Whether anything of it was delivered."""
        self.claims = ("", 0)
        """What its first record says of the chain before it, once that was heard."""
        self.ends = 0
        """Where the chain after it says that it ended, 0 while nothing of one was delivered."""
        self._refused: dict[Verdict, tuple[int, int, str]] = {}
        """Since the last request: records that came and do not count, first, last, and key."""
        self._tied = 0
        """Up to here the chain leads to a record that the revocation of its key names."""
        self._signers = (mark.kid, *(thumbprint(key_of_x(x)) for x in mark.keys))
        """Keys that signed what was delivered, one announced by the other; the last one's turn it is."""
        self._keys = mark.keys
        self._state = mark.rules
        self._rules = ChainRules.resumed(mark.rules, whole=mark.seq == 0, rounds_kept=ROUNDS_HELD)

    @property
    def proven(self) -> bool:
        """Whether any record of it was signed by a trusted key."""
        return self.broken or self.order.tip > 0

    @property
    def previous(self) -> tuple[str, int]:
        """The chain before it and where that ended, ("", 0) where it names none, or that is not known."""
        return self._rules.previous

    @property
    def held_up(self) -> bool:
        """Whether the chain before it in its table has not been delivered to its end."""
        return self.untied or (self.after is not None and self.after.order.seq < self.after_seq)

    @property
    def untied(self) -> bool:
        """Whether the record to which the next one must lead, since its key is revoked, has not come."""
        until = self._until()
        return until is not None and not self.order.holds_to(until.seq)

    def refuse(self, seq: int, verdict: Verdict, kid: str) -> None:
        """A record of it came that does not count."""
        first, last, _ = self._refused.get(verdict, (seq, seq, ""))
        self._refused[verdict] = (min(first, seq), max(last, seq), kid)

    def forget_refusals(self) -> None:
        """What is missing is asked for anew: then it comes again."""
        self._refused.clear()

    def why_missing(self, first: int, last: int) -> str:
        """Why these records could not be had."""
        for verdict, (low, high, kid) in self._refused.items():
            if low <= last and high >= first:
                return refusal(verdict, kid)
        return self.asker.why

    def _until(self) -> Position | None:
        following = self.order.following
        until = following.until if following is not None else None
        return until if until is not None and until.seq > self._tied else None

    @property
    def watermark(self) -> Watermark:
        """That everything delivered is done."""
        order = self.order
        return Watermark(
            self.table, self.name, order.seq, order.digest, self._keys, self._signers[0], self._state
        )

    def take_key(self, signed: SignedRecord) -> KeyBody:
        """A key enters the chain, or the chain begins with its key. Raises `BrokenChain`."""
        try:
            body = _KEY_BODY.decode(signed.record.body)
            key = key_of_jwk(body.jwk)
        except (EnvelopeError, msgspec.ValidationError) as error:
            raise BrokenChain(signed.seq, f"it announces no key: {error}") from error
        if body.event == "rotated":
            self.announced.add(key, signed.kid)
        elif signed.seq != 1 or thumbprint(key) != signed.kid:
            raise BrokenChain(signed.seq, "a chain begins once, with the key that signs it")
        return body

    def release(self, trust: Trust | None) -> Delivered | None:
        """The next record, None where it has not come. Raises `BrokenChain` where it does not fit.

        `trust` knows the persons who may decide, None where only keys are pinned.
        """
        lost = not self.order.digest
        until = self._until()
        if until is not None:
            if not self.order.leads_to(until.seq, until.head):
                why = f"it does not lead to record {until.seq}, which the revocation of its key names"
                raise BrokenChain(self.order.seq + 1, f"{Verdict.REVOKED}: {why}")
            self._tied = until.seq
        signed = self.order.release()
        if signed is None:
            return None
        if why := why_behind_its_end(signed.seq, self.ends):
            raise BrokenChain(signed.seq, why)
        self._check_turn(signed, lost=lost)
        if lost:
            self._rules.lose()
        judged = self._rules.take(read_record(signed.kid, signed.record, signed.digest), trust)
        if judged.problems:
            raise BrokenChain(signed.seq, judged.problems[0])
        self._state = self._rules.state()
        return Delivered(
            signed.record,
            signed.envelope,
            self._keys,
            self._signers[0],
            self._state,
            judged.persons,
            judged.unchecked,
        )

    def _check_turn(self, signed: SignedRecord, *, lost: bool) -> None:
        """A key that announced another one has signed its last record in this chain.

        The first record decides whose turn it is, and so does one behind a loss: what was lost may have
        announced a key.
        """
        signers, kid = self._signers, signed.kid
        if lost or signers == ("",):
            signers = signers[: signers.index(kid) + 1] if kid in signers else (kid,)
        if signers[-1] != kid:
            word = "superseded" if kid in signers else "signer"
            raise BrokenChain(signed.seq, f"{word}: it is the turn of key {signers[-1]}, not of {kid}")
        if signed.record.kind == Kind.KEY:
            announced = thumbprint(key_of_jwk(_KEY_BODY.decode(signed.record.body).jwk))
            signers += (announced,) if announced != kid else ()
        if signers != self._signers:
            self._signers = signers
            keys = (self.announced.get(one) for one in signers[1:])
            self._keys = tuple(public_jwk(key)["x"] for key in keys if key is not None)
