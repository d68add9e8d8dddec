"""One spin through the whole chain, without a device and without a record that anybody could take for one.

    shipped lines -> driver -> round -> signed records in a journal of its own -> verified
                                    the result, signed by the node -> broker -> read back, verified

The records are signed by a key that is thrown away, in a temporary directory. What the node's own key signs
is of a type of its own, on the topic on which a node checks its broker; no consumer takes either.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dollyd.client.proof.verify import verify_journal
from dollyd.daemon.core.events import TableOpened
from dollyd.daemon.doctor.credentials import absent, from_sources
from dollyd.daemon.doctor.unit import read_unit
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.journal.writer import Draft, Writer, chain_start
from dollyd.daemon.keys.signing import Signer
from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.link.mqtt import MqttLink, MqttSettings
from dollyd.daemon.settings.load import Settings, load, shipped_table
from dollyd.daemon.table.capture import PlainLine, engine_of
from dollyd.daemon.table.chains import Keyring, load_keyring
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, house
from dollyd.wire.errors import DollydError
from dollyd.wire.judgement import Claim, Verdict
from dollyd.wire.jws import EnvelopeError, key_of_jwk, parse_envelope, verify_envelope
from dollyd.wire.record import Kind
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S, Stamp, iso_utc
from dollyd.wire.topics import Topics

SELFTEST_TYP = "dolly-selftest/1"
TABLE = "selftest"
DRIVER = "cammegh-ss2"
NUMBER = "17"
"""What the shipped spin shows."""
_SPIN = ("config", "selftest", "roulette-spin.jsonl")
_ANSWER_S = 5.0


class SelftestError(DollydError):
    """A stage did not give what it must."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage that has ended. `problem` is empty where it went well, else no further one was tried."""

    name: str
    ms: float
    told: str
    problem: str = ""


@dataclass(slots=True)
class _Run:
    """What the stages hand on to each other."""

    config: Path
    clock: Clock
    folder: Path
    throw_away: Signer = field(default_factory=lambda: Signer(Ed25519PrivateKey.generate()))
    settings: Settings | None = None
    records: list[NewRecord] = field(default_factory=list)
    result: bytes = b""
    """Payload of the result's record."""
    signed: bytes = b""
    keyring: Keyring | None = None
    came_back: bytes = b""

    @property
    def known(self) -> Settings:
        """The configuration, which the first stage has read."""
        if self.settings is None:
            raise SelftestError("no configuration")
        return self.settings

    @property
    def signer(self) -> Signer:
        """The node's key, or the throw-away one where the node's exists only while its unit runs."""
        return self.keyring.newest if self.keyring is not None else self.throw_away


async def selftest(config: Path, clock: Clock) -> AsyncIterator[Stage]:
    """Play the shipped spin; gives each stage when it has ended, up to the first that failed."""
    with tempfile.TemporaryDirectory(prefix="dollyd-selftest-") as folder:
        run = _Run(config, clock, Path(folder))
        for name, work in _STAGES.items():
            begun_ns = time.perf_counter_ns()
            told, problem = "", ""
            try:
                told = await work(run)
            except (DollydError, EnvelopeError, OSError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
            yield Stage(name, (time.perf_counter_ns() - begun_ns) / NS_PER_MS, told, problem)
            if problem:
                return


# --- the stages ----------------------------------------------------------------------------------


async def _configuration(run: _Run) -> str:
    run.settings = from_sources(load(run.config), read_unit(Host()), Host())
    if any(key.startswith("signing.") for key, _ in absent(run.settings)):
        return "the node's key is root's, so a throw-away key signs"
    run.keyring = load_keyring(run.settings)
    return f"node {run.settings.node}, key {run.keyring.newest.kid}"


async def _round(run: _Run) -> str:
    run.records = list(play(engine_of(shipped_table("roulette", "A", DRIVER)), run.clock.stamp()))
    results = [record for record in run.records if record.kind is Kind.RESULT]
    if len(results) != 1:
        raise SelftestError(f"{len(results)} results of one spin")
    number = msgspec.json.decode(results[0].body)["outcome"]["pocket"]
    if number != NUMBER:
        raise SelftestError(f"the spin shows {NUMBER}, the result is {number}")
    return f"{DRIVER}: number {number}, {len(run.records)} records"


async def _journal(run: _Run) -> str:
    entries = await asyncio.to_thread(_write, run)
    (result,) = (entry for entry in entries if entry.kind == Kind.RESULT)
    run.result = parse_envelope(result.envelope).payload
    return f"{len(entries)} records, signed and on the disk"


async def _verified(run: _Run) -> str:
    keys = {run.throw_away.kid: key_of_jwk(run.throw_away.jwk)}
    report = await asyncio.to_thread(verify_journal, run.folder / "journal.db", keys)
    if not report.ok or report.rounds != 1:
        raise SelftestError(report.problems[0].why if report.problems else f"{report.rounds} rounds")
    return f"{report.records} records, {report.captures} captures"


async def _sign(run: _Run) -> str:
    run.signed = run.signer.sign(run.result, SELFTEST_TYP)
    return f"{len(run.signed)} bytes by {run.signer.kid}"


async def _broker(run: _Run) -> str:
    mqtt = mqtt_settings(run.known)
    topic = Topics(run.known.site).node_check(run.known.node, "scratch")
    async with asyncio.timeout(_ANSWER_S):
        run.came_back = await _there_and_back(mqtt, topic, run.signed)
    return f"{mqtt.brokers[0]}: {topic}"


async def _signature(run: _Run) -> str:
    if run.came_back != run.signed:
        raise SelftestError("another text came back than was sent")
    envelope = parse_envelope(run.came_back, SELFTEST_TYP)
    verify_envelope(envelope, {run.signer.kid: key_of_jwk(run.signer.jwk)})
    if run.keyring is None or run.keyring.trust is None:
        return "right; no trust file was asked"
    now = iso_utc(run.clock.stamp().utc_ns)
    claim = Claim(kid=envelope.kid, node=run.keyring.node, utc=now, live=True)
    verdict = run.keyring.trust.judge(claim).verdict
    if verdict is not Verdict.VALID:
        raise SelftestError(f"the site's trust file says {verdict} of key {envelope.kid}")
    return f"right, and trusted by {run.keyring.trust.site}"


_STAGES: dict[str, Callable[[_Run], Awaitable[str]]] = {
    "configuration": _configuration,
    "driver and round": _round,
    "journal": _journal,
    "journal verified": _verified,
    "node's signature": _sign,
    "broker and back": _broker,
    "signature verified": _signature,
}


# --- their parts ---------------------------------------------------------------------------------


def play(engine: Engine, begin: Stamp) -> Iterator[NewRecord]:
    """The records of the shipped spin, as if it had begun at this moment."""

    def at(mono_ns: int) -> Stamp:
        return Stamp(mono_ns, begin.utc_ns + mono_ns - begin.mono_ns)

    yield from engine.feed(house(TableOpened("selftest"), begin)).records
    yield from engine.feed(Input(Op.OPEN, begin, DRIVER)).records
    for raw in files("dollyd").joinpath(*_SPIN).read_bytes().splitlines():
        line = msgspec.json.decode(raw, type=PlainLine)
        now_ns = begin.mono_ns + round(line.t * NS_PER_S)
        while (due_ns := engine.deadline_ns()) is not None and due_ns < now_ns:
            yield from engine.feed(Input(Op.TICK, at(due_ns))).records
        yield from engine.feed(Input(Op.FRAME, at(now_ns), DRIVER, line.line)).records


def _write(run: _Run) -> list[Entry]:
    """Every record through the writer, in a chain that is begun for it."""
    entries: list[Entry] = []
    failures: list[Exception] = []
    journal = Journal.open(run.folder / "journal.db")
    try:
        writer = Writer(
            journal,
            run.throw_away,
            site=run.known.site,
            node=run.known.node,
            clock=run.clock,
            on_written=entries.extend,
            on_failure=failures.append,
        )
        writer.start_chain(TABLE, None)
        writer.submit(chain_start(TABLE, run.throw_away, run.clock.stamp(), None))
        for record in run.records:
            capture = record.capture or None
            writer.submit(Draft(TABLE, record.kind, record.round, record.body, record.at, capture))
        writer.start()
        writer.close()
    finally:
        journal.close()
    if failures:
        raise SelftestError(str(failures[0]))
    return entries


async def _there_and_back(mqtt: MqttSettings, topic: str, payload: bytes) -> bytes:
    """Publish, and give what comes on the topic. Raises `LinkError`."""
    ours = replace(mqtt, client_id=f"{mqtt.client_id}-selftest")
    async with MqttLink(ours, mqtt.brokers[0], keep_session=False) as link:
        await link.subscribe(topic)
        await link.publish(topic, payload)
        async for message in link.messages():
            if message.topic == topic:
                return message.payload
    raise SelftestError("nothing came back")
