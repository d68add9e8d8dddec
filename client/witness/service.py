"""The witness at work: follows every table of a site, countersigns its checkpoints, tells of contradictions.

    stream --record--> book --finding--> statement, signed and kept --> retained on `<table>/witness/<name>`

Two links: that of the stream, and one of its own for what it says. On the latter it also looks at the
retained checkpoints: one from before what was followed says nothing new to a stream, but it may belong to a
history that was written again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from random import Random

import msgspec

from dollyd.client.stream.brokers import PAUSE_FIRST_S, PAUSE_MAX_S, STEADY_S, together
from dollyd.client.stream.delivered import Delivered
from dollyd.client.stream.given_up import GivenUp
from dollyd.client.stream.replay import ChainError, GapError
from dollyd.client.stream.stream import Stream
from dollyd.client.witness.book import Finding, WitnessBook
from dollyd.client.witness.witness import WITNESS_TYP, state
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink, MqttSettings
from dollyd.wire.judgement import Claim
from dollyd.wire.jws import EnvelopeError, Keys, parse_envelope, verify_envelope
from dollyd.wire.key_source import KeySource, source_of
from dollyd.wire.lineage import NOBODY, Lineage
from dollyd.wire.record import Record
from dollyd.wire.topics import Topics

Sign = Callable[[bytes, str], bytes]
"""Makes the envelope of a payload and its `typ`, with the witness's own key."""

_RECORD = msgspec.json.Decoder(Record)
_FORGED = "signature: "
"""A `ChainError` that says so is about something that the key has not signed: that anybody can send."""

TICK_S = 0.5
"""Between two looks at where the stream listens."""

_LOG = Logger(__name__)


class Witness:
    """One witness of a site. `name` is also its consumer's name, and must fit a topic.

    `losses`: records that people have given up for lost: it goes on behind them, and says so.
    """

    def __init__(
        self,
        mqtt: MqttSettings,
        site: str,
        name: str,
        keys: Keys | KeySource,
        book: WitnessBook,
        sign: Sign,
        losses: Iterable[GivenUp] = (),
    ) -> None:
        self._site = site
        self._name = name
        self._keys = source_of(keys)
        self._book = book
        self._sign = sign
        self._losses = tuple(losses)
        self._topics = Topics(site)
        self._mqtt = replace(mqtt, client_id=f"dollyd-{site}-{name}-says-{secrets.token_hex(16)}")
        self._stream = Stream(mqtt, site, name, keys, book.watermarks, start="now", any_chain=True)
        self._statements = book.statements()
        self._untold: dict[str, None] = {}
        self._news = asyncio.Event()
        self._gaps: set[tuple[str, int]] = set()
        """Gaps that were logged."""
        self._random = Random()  # noqa: S311  spreads retries, keeps no secret

    async def run(self) -> None:
        """Follow and tell until cancelled. Raises an exception group with `WitnessError`."""
        for finding in self._book.contradictions:
            self._tell(finding)
        async with self._stream as stream, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(stream), name="witness-follow")
            tasks.create_task(self._speak(), name="witness-speak")

    # --- what is seen ----------------------------------------------------------------------------

    async def _follow(self, stream: Stream) -> None:
        while True:
            try:
                await self._take(stream, await anext(stream))
            except ChainError as error:
                if not error.why.startswith(_FORGED):
                    self._tell(self._book.contradict(error.chain, f"record {error.seq}: {error.why}"))
            except GapError as error:
                await self._miss(stream, error)

    async def _take(self, stream: Stream, delivered: Delivered) -> None:
        self._tell(self._book.take(delivered.record, delivered.envelope))
        await stream.done(delivered)

    async def _miss(self, stream: Stream, error: GapError) -> None:
        """Records cannot be had. Behind those that are given up the next statement begins anew (`from`)."""
        if any(loss.covers(error) for loss in self._losses):
            await stream.accept_loss(error)  # false where some have come: then it is raised again, or filled
        elif (error.chain, error.first) not in self._gaps:
            self._gaps.add((error.chain, error.first))
            _LOG.warning("history_missing", table=error.table, chain=error.chain, why=str(error))

    def _look_back(self, table: str, envelope: bytes) -> None:
        """A retained checkpoint. Those of what is still to come are left to the stream."""
        try:
            parsed = parse_envelope(envelope)
            record = _RECORD.decode(parsed.payload)
            followed = self._book.followed(record.chain)
            if followed is None or record.seq > followed.seq or table != record.table:
                return
            verify_envelope(parsed, self._keys_of(record, parsed.kid))
        except (EnvelopeError, msgspec.ValidationError):
            return  # nobody who is trusted has said it
        if sha256(envelope).hexdigest() != followed.digest:
            self._tell(self._book.take(record, envelope))

    def _keys_of(self, record: Record, kid: str) -> Keys:
        """The key under this `kid`, where it is trusted, also by what was announced in the chain."""
        mark = self._book.watermarks.load().get(record.chain)
        announced = Lineage.of(mark.kid, mark.keys) if mark else NOBODY
        claim = Claim.of(record, kid, announced=announced)
        key = self._keys.judge(claim).trusted
        return {} if key is None else {kid: key}

    # --- what is said ----------------------------------------------------------------------------

    def _tell(self, finding: Finding | None) -> None:
        if finding is None:
            return
        envelope = self._sign(state(finding, self._site, self._name, time.time_ns()), WITNESS_TYP)
        self._book.keep_statement(finding.table, envelope)
        self._statements[finding.table] = envelope
        self._untold[finding.table] = None
        self._news.set()
        place = {"table": finding.table, "chain": finding.chain, "seq": finding.seq}
        if finding.why:
            _LOG.error("history_inconsistent", **place, why=finding.why)
        else:
            _LOG.info("checkpoint_countersigned", **place, since=finding.first)

    async def _speak(self) -> None:
        """Keep a link for what is said, where the stream listens, until cancelled."""
        failures, told_cause = 0, ""
        while True:
            began_s, broker = time.monotonic(), self._stream.broker
            try:
                if broker:
                    async with MqttLink(self._mqtt, broker, keep_session=False) as link:
                        await self._use(link, broker)
            except LinkError as error:
                if error.cause not in {Cause.LEFT, told_cause}:
                    told_cause = error.cause
                    _LOG.warning("statements_wait", broker=broker, **error.told)
            if time.monotonic() - began_s > STEADY_S:
                failures, told_cause = 0, ""
            pause_s = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** min(failures, 30))
            failures = failures + 1 if broker else 0
            await asyncio.sleep(pause_s * self._random.uniform(0.5, 1.0))

    async def _use(self, link: MqttLink, broker: str) -> None:
        """Say everything, also what was said before: the broker may have forgotten it. Raises `LinkError`."""
        self._untold.update(dict.fromkeys(self._statements))
        self._news.set()
        await together(self._publish(link), self._listen(link), self._follow_stream(broker))

    async def _follow_stream(self, broker: str) -> None:
        """End a link to a broker that the stream has left for another."""
        while True:
            await asyncio.sleep(TICK_S)
            where = self._stream.broker
            if where not in {"", broker}:
                raise LinkError(Cause.LEFT, f"the stream listens to {where}")

    async def _publish(self, link: MqttLink) -> None:
        while True:
            self._news.clear()
            for table in tuple(self._untold):
                envelope = self._statements[table]
                await link.publish(self._topics.witness(table, self._name), envelope, retain=True)
                if self._statements[table] is envelope:
                    del self._untold[table]
            if not self._untold:
                await self._news.wait()

    async def _listen(self, link: MqttLink) -> None:
        await link.subscribe(self._topics.every_checkpoint())
        async for message in link.messages():
            self._look_back(message.topic.split("/")[-2], message.payload)
