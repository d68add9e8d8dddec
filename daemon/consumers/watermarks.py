"""How far the consumers have come, by their own word, and whether settlement lags behind play.

A consumer keeps `<table>/ack/<consumer>` retained with the last record that it has dealt with. What it says
decides nothing: no record is dropped or held back for it. It shows who lags, and a lag is an incident of the
table's chain. A consumer that never acknowledged anything is unknown here; an empty payload makes one so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dollyd.daemon.core.decision import incident
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.journal.store import Entry
from dollyd.daemon.link.inbox import Route
from dollyd.daemon.link.mqtt import Message
from dollyd.wire.decoding import from_json
from dollyd.wire.record import IncidentBody
from dollyd.wire.stamp import NS_PER_S
from dollyd.wire.topics import Topics, check_name

LAGS = "settlement-lags"
CAUGHT_UP = "settlement-caught-up"
CONSUMERS_MAX = 100
"""A table; more are counted and not looked at."""
SHOWN_MAX = 50
"""Consumers in the health topic, those that lag most first."""
INCIDENT_EVERY_S = 60
"""Shortest time between two of these incidents of a table, or who may acknowledge could fill its chain."""
_LOOK_EVERY_S = 1

_LOG = Logger(__name__)


class Ack(Struct, frozen=True, forbid_unknown_fields=True):
    """Payload of `<table>/ack/<consumer>`: everything up to `seq` of `chain` is done, at `time`."""

    consumer: str
    chain: Annotated[str, Meta(max_length=64)]
    seq: Annotated[int, Meta(ge=0, lt=2**53)]
    time: Annotated[str, Meta(max_length=64)]


@dataclass(frozen=True, slots=True)
class Limits:
    """A consumer that is further behind lags."""

    records: int
    seconds: int


@dataclass(slots=True)
class _Consumer:
    ack: Ack
    place: int
    """Records of the table that it has done, over all its chains."""
    mark: int
    """Records that there were when it was found behind; reached, the time counts anew."""
    marked_ns: int
    lags: bool = False


@dataclass(slots=True)
class _Table:
    ends: dict[str, int]
    """Last `seq` of each chain, oldest first."""
    consumers: dict[str, _Consumer] = field(default_factory=dict)
    quiet_until_ns: int = 0

    @property
    def total(self) -> int:
        return sum(self.ends.values())

    def place(self, ack: Ack) -> int:
        chains = list(self.ends)
        before = chains[: chains.index(ack.chain)]
        return sum(self.ends[chain] for chain in before) + ack.seq


class Watermarks:
    """Takes acknowledgements through its `routes`, and judges them once a second in `run`.

    `ends` gives by table the last `seq` of each of its chains, oldest first. `report` keeps an incident of a
    table in its chain.
    """

    def __init__(
        self,
        ends: Mapping[str, Mapping[str, int]],
        topics: Topics,
        limits: Limits,
        clock: Clock,
        report: Callable[[str, IncidentBody], None],
    ) -> None:
        self._tables = {table: _Table(dict(chains)) for table, chains in ends.items()}
        self._topics = topics
        self._limits = limits
        self._clock = clock
        self._report = report
        self._refused: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        """Where acknowledgements come in; the retained ones tell what was before our start."""
        return [self._route(table) for table in self._tables]

    def add(self, table: str, ends: Mapping[str, int]) -> Route:
        """One more table, which has these ends of chains; gives where its acknowledgements come in."""
        self._tables[table] = _Table(dict(ends))
        return self._route(table)

    def remove(self, table: str) -> None:
        """A table is no longer played here: nobody lags behind it."""
        del self._tables[table]

    def use(self, limits: Limits) -> None:
        """Judge by other limits from now on."""
        self._limits = limits

    def _route(self, table: str) -> Route:
        return Route(self._topics.every_ack(table), partial(self._take, table), retained=True)

    def written(self, entries: Iterable[Entry]) -> None:
        """Records are durable: the chains are so long now."""
        for entry in entries:
            if entry.table in self._tables:  # its last records may come after its end here
                self._tables[entry.table].ends[entry.chain] = entry.seq

    def snapshot(self) -> dict[str, Any]:
        """For the health topic: who has come how far, the slowest first, and what was refused."""
        now_ns = self._clock.stamp().mono_ns
        shown: list[dict[str, Any]] = [
            {
                "table": name,
                "consumer": consumer.ack.consumer,
                "chain": consumer.ack.chain,
                "seq": consumer.ack.seq,
                "lag_records": table.total - consumer.place,
                "lag_s": _behind_s(table, consumer, now_ns),
                "lags": consumer.lags,
            }
            for name, table in self._tables.items()
            for consumer in table.consumers.values()
        ]
        shown.sort(key=lambda one: (-one["lag_records"], one["table"], one["consumer"]))
        return {
            "known": len(shown),
            "lagging": sum(one["lags"] for one in shown),
            "consumers": shown[:SHOWN_MAX],
            "refused": dict(self._refused),
        }

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            self.look()
            await self._clock.sleep_until(self._clock.stamp().mono_ns + _LOOK_EVERY_S * NS_PER_S)

    def look(self) -> None:
        """Judge every consumer now."""
        now_ns = self._clock.stamp().mono_ns
        for name, table in self._tables.items():
            for consumer in table.consumers.values():
                if consumer.place >= consumer.mark:
                    consumer.mark, consumer.marked_ns = table.total, now_ns
                if now_ns >= table.quiet_until_ns:
                    self._judge(name, table, consumer, now_ns)

    def _judge(self, name: str, table: _Table, consumer: _Consumer, now_ns: int) -> None:
        """Report the step into a lag and the step out of it, which takes half as much."""
        lag, behind_s = table.total - consumer.place, _behind_s(table, consumer, now_ns)
        limits = self._limits
        if not consumer.lags and (lag > limits.records or behind_s > limits.seconds):
            what, text = LAGS, "a consumer of the records lags behind"
        elif consumer.lags and lag <= limits.records // 2 and behind_s <= limits.seconds // 2:
            what, text = CAUGHT_UP, "a consumer that lagged behind has caught up"
        else:
            return
        consumer.lags = what == LAGS
        table.quiet_until_ns = now_ns + INCIDENT_EVERY_S * NS_PER_S
        who = consumer.ack.consumer
        details = {"consumer": who, "chain": consumer.ack.chain, "seq": str(consumer.ack.seq)}
        details |= {"lag_records": str(lag), "lag_s": str(behind_s)}
        log = _LOG.warning if consumer.lags else _LOG.info
        log(what.replace("-", "_"), table=name, consumer=who, lag_records=lag, lag_s=behind_s)
        self._report(name, incident(what, text, details=details))

    # --- acknowledgements ----------------------------------------------------------------------------

    def _take(self, name: str, message: Message) -> None:
        table, who = self._tables[name], message.topic.rpartition("/")[2]
        if not message.payload:
            table.consumers.pop(who, None)
            return
        try:
            ack = from_json(message.payload, Ack)
        except msgspec.DecodeError:
            self._refused["bad"] += 1
            return
        problem = self._problem(table, who, ack)
        if problem:
            self._refused[problem] += 1
            return
        place, known = table.place(ack), table.consumers.get(who)
        if known is None:
            now_ns = self._clock.stamp().mono_ns
            table.consumers[who] = _Consumer(ack, place, mark=table.total, marked_ns=now_ns)
        else:
            known.ack, known.place = ack, place

    def _problem(self, table: _Table, who: str, ack: Ack) -> str:
        if ack.consumer != who or not check_name(who):
            return "bad"
        if ack.chain not in table.ends:
            return "unknown-chain"
        if ack.seq > table.ends[ack.chain]:
            return "beyond-the-end"
        if who not in table.consumers and len(table.consumers) >= CONSUMERS_MAX:
            return "too-many-consumers"
        return ""


def _behind_s(table: _Table, consumer: _Consumer, now_ns: int) -> int:
    """How long, in seconds, it has not done what there was when it was found behind; 0 when it is not."""
    return max(0, now_ns - consumer.marked_ns) // NS_PER_S if consumer.place < table.total else 0
