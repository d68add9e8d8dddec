"""What a site shows of itself, for a person who asks once: tables, devices, nodes, and how old each word is.

Pure: retained payloads by topic in, one `SiteStatus` out. All but the last record of a table is the broker's
word; nobody signs it, and nobody pays by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dollyd.daemon.core.round import Phase
from dollyd.daemon.core.void_rules import DOUBT_RULES, VOID_RULES
from dollyd.daemon.table.record_words import next_orders, words_of
from dollyd.wire.decoding import from_json
from dollyd.wire.judgement import Claim, refusal
from dollyd.wire.jws import Envelope, EnvelopeError, parse_envelope, verify_envelope
from dollyd.wire.key_source import KeySource
from dollyd.wire.record import Record
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.topics import Topics

CHECKED, NOT_CHECKED = "signature checked", "signature not checked: no keys given"
_UNREAD = "what came is not in its form: "
_WHY = {rule.id: rule.text for rule in (*DOUBT_RULES, *VOID_RULES)}
_Payload = TypeVar("_Payload")


class DeviceWord(Struct, kw_only=True):
    """A device at a table."""

    name: str
    status: str = "unknown"
    cause: str = ""
    since: str = ""
    """UTC since when it is so, empty where the node does not say."""
    age_s: int = -1
    """How long ago that was, by the clock of whoever asks; -1: not known."""


class LastWord(Struct, kw_only=True):
    """The last final record of a table, or the correction of it."""

    kind: str = ""
    round: int = 0
    seq: int = 0
    outcome: str = ""
    time: str = ""
    age_s: int = -1
    checked: str = NOT_CHECKED
    """Whether the signature is that of a key that is trusted, or why not."""


class TableWord(Struct, kw_only=True):
    """A table."""

    table: str
    node: str = ""
    """The node that counts its devices as its own, empty where none does."""
    game: str = ""
    variant: str = ""
    phase: str = ""
    round: int = 0
    mode: str = ""
    blocked: str = ""
    why: str = ""
    """In words, why it is blocked."""
    next: str = ""
    """What to type, where people must act."""
    since: str = ""
    age_s: int = -1
    stale: str = ""
    """Why none of this may be so any more, empty where it is as fresh as its node."""
    last: LastWord | None = None
    devices: list[DeviceWord] = []


class NodeWord(Struct, kw_only=True):
    """A node, with its broker, journal and clock as it says itself."""

    node: str
    state: str = "unknown"
    version: str = ""
    time: str = ""
    age_s: int = -1
    stale: str = ""
    broker: str = ""
    queue: int = -1
    """Records that the broker has not acknowledged, -1: not known."""
    records: int = -1
    """In the journal."""
    disk_free_mib: int = -1
    verified: str = ""
    """What the last verification of the journal found."""
    clock: str = ""
    health_time: str = ""
    health_age_s: int = -1


class SiteStatus(Struct, kw_only=True):
    """Everything that was heard."""

    site: str
    broker: str
    asked: str
    nodes: list[NodeWord]
    tables: list[TableWord]
    missing: list[str] = []
    """What was asked for and did not come."""

    @property
    def good(self) -> bool:
        """Whether nothing is blocked, stale, missing, or signed by nobody who is trusted."""
        believed = {CHECKED, NOT_CHECKED}
        doubted = any(word.last and word.last.checked not in believed for word in self.tables)
        bad = any(word.stale or word.blocked for word in self.tables) or doubted
        return bool(self.tables) and not self.missing and not bad


class _State(Struct):
    """What is shown of `<table>/state`; a node of another version may say more or less."""

    game: str
    variant: str
    phase: str
    round: int
    blocked: str
    mode: str = ""
    devices: dict[str, str] = {}
    time: str = ""


class _Device(Struct):
    status: str
    cause: str = ""
    time: str = ""


class _Status(Struct):
    state: str
    version: str = ""
    time: str = ""
    valid_until: str = ""


class _Journal(Struct):
    entries: int
    disk_free_bytes: int
    verified_time: str = ""
    verified_problems: int = 0


class _Publisher(Struct):
    connected: bool
    broker: str
    queue: int


class _Clock(Struct):
    synchronised: bool
    error_bound_us: int


class _Health(Struct):
    time: str
    clock: _Clock
    journal: _Journal
    publisher: _Publisher
    devices: dict[str, Any]


def site_status(
    site: str, broker: str, heard: Mapping[str, bytes], now_ns: int, keys: KeySource | None = None
) -> SiteStatus:
    """Of the payloads by topic; `now_ns` is UTC. `keys`: who may have signed the last records."""
    read = _Reader(Topics(site), heard, now_ns, keys)
    nodes = [read.node(name) for name in read.names("node", "status")]
    owners = {table: node for node in nodes for table in read.tables_of(node.node)}
    tables = [read.table(name, owners.get(name)) for name in read.names("", "state")]
    return SiteStatus(site=site, broker=broker, asked=iso_utc(now_ns), nodes=nodes, tables=tables)


def _checked(envelope: Envelope, claim: Claim, keys: KeySource) -> str:
    """Whether a signature is that of a key that is trusted, in words."""
    judged = keys.judge(claim)
    if judged.trusted is None:
        return refusal(judged.verdict, claim.kid)
    try:
        verify_envelope(envelope, {claim.kid: judged.trusted})
    except EnvelopeError as error:
        return str(error)
    return CHECKED


class _Reader:
    """Takes the payloads apart."""

    def __init__(
        self, topics: Topics, heard: Mapping[str, bytes], now_ns: int, keys: KeySource | None
    ) -> None:
        self._topics = topics
        self._heard = heard
        self._now_ns = now_ns
        self._keys = keys

    def names(self, parent: str, what: str) -> list[str]:
        """Who has said something: `node/NAME/what`, or `NAME/what` without a parent."""
        before = [parent] if parent else []
        levels = [self._topics.below_site(topic) for topic, payload in self._heard.items() if payload]
        return sorted(one[-2] for one in levels if [*one[:-2], one[-1]] == [*before, what])

    def tables_of(self, node: str) -> set[str]:
        """The tables whose devices a node counts as its own."""
        health = self._decoded(self._topics.node_health(node), _Health)
        return {name.split("/")[0] for name in health.devices} if isinstance(health, _Health) else set()

    def node(self, name: str) -> NodeWord:
        """One node."""
        word = NodeWord(node=name)
        status = self._decoded(self._topics.node_status(name), _Status)
        if isinstance(status, _Status):
            word.state, word.version, word.time = status.state, status.version, status.time
            word.age_s = self._age_s(status.time)
            if status.state != "online":
                word.stale = f"node {name} is {status.state}"
            elif (over_s := self._age_s(status.valid_until)) > 0:
                word.stale = f"node {name} should have spoken {over_s} s ago"
        else:
            word.stale = f"node {name}: {status}"
        health = self._decoded(self._topics.node_health(name), _Health)
        if isinstance(health, _Health):
            self._add_health(word, health)
        return word

    def _add_health(self, word: NodeWord, health: _Health) -> None:
        word.health_time, word.health_age_s = health.time, self._age_s(health.time)
        linked = "connected" if health.publisher.connected else "not connected"
        word.broker, word.queue = f"{linked}, {health.publisher.broker}", health.publisher.queue
        word.records = health.journal.entries
        word.disk_free_mib = health.journal.disk_free_bytes >> 20
        found = f"{health.journal.verified_problems} faults" if health.journal.verified_problems else "sound"
        word.verified = f"{found} at {health.journal.verified_time}" if health.journal.verified_time else ""
        bound = f"off by {health.clock.error_bound_us} microseconds at most"
        word.clock = bound if health.clock.synchronised else "not synchronised"

    def table(self, name: str, node: NodeWord | None) -> TableWord:
        """One table."""
        word = TableWord(table=name, last=self._last(name))
        word.stale = node.stale if node is not None else "no node counts its devices as its own"
        word.node = node.node if node is not None else ""
        state = self._decoded(self._topics.state(name), _State)
        if not isinstance(state, _State):
            word.stale = state
            return word
        word.game, word.variant, word.phase = state.game, state.variant, state.phase
        word.round, word.mode, word.blocked = state.round, state.mode, state.blocked
        word.since, word.age_s = state.time, self._age_s(state.time)
        word.devices = [self._device(name, device, status) for device, status in state.devices.items()]
        if state.blocked:
            word.why = _WHY.get(state.blocked, "")
            freed = f"dollyd table --table {name} --role ROLE --key FILE inspected"
            halted = "see `dollyd doctor` on the node"
            word.next = freed if state.blocked in _WHY else halted
        if state.phase == Phase.BLOCKED:
            word.next = next_orders(name, state.round)
        return word

    def _device(self, table: str, name: str, status: str) -> DeviceWord:
        told = self._decoded(self._topics.device(table, name), _Device)
        if not isinstance(told, _Device):
            return DeviceWord(name=name, status=status)
        age_s = self._age_s(told.time)
        return DeviceWord(name=name, status=told.status, cause=told.cause, since=told.time, age_s=age_s)

    def _last(self, table: str) -> LastWord | None:
        data = self._heard.get(self._topics.last(table))
        if not data:
            return None
        try:
            envelope = parse_envelope(data)
            record = msgspec.json.decode(envelope.payload, type=Record)
            told = words_of(record.kind, table, record.round, msgspec.json.decode(record.body))
        except (EnvelopeError, msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
            return LastWord(checked=f"{_UNREAD}{error}")
        fields = told.fields if told is not None else {}
        rule = f" by {fields['rule']}" if "rule" in fields else ""
        word = LastWord(kind=record.kind, round=record.round, seq=record.seq)
        word.outcome = f"{fields.get('outcome', '')}{rule}"
        word.time, word.age_s = record.time.utc, self._age_s(record.time.utc)
        if (record.site, record.table) != (self._topics.site, table):
            word.checked = f"it is a record of table {record.table} of site {record.site}"
        elif self._keys is not None:
            word.checked = _checked(
                envelope, Claim.of(record, envelope.kid, sha256(data).hexdigest()), self._keys
            )
        return word

    def _decoded(self, topic: str, form: type[_Payload]) -> _Payload | str:
        """A payload in its form, or why there is none."""
        payload = self._heard.get(topic)
        if not payload:
            return "nothing is heard of it"
        try:
            return from_json(payload, form)
        except msgspec.DecodeError as error:
            return f"{_UNREAD}{error}"

    def _age_s(self, utc: str) -> int:
        """Seconds since a time of day, negative before it; -1 where there is none."""
        try:
            then_s = datetime.fromisoformat(utc).timestamp()
        except ValueError:
            return -1
        return int(self._now_ns / NS_PER_S - then_s)
