"""Every game and every driver at work at once: one daemon, a table of each, real ports, a real broker.

The tables and their evenings are those of `dollyd demo --all`. Here every device is unplugged once besides,
in mid-draw where it reads the outcome; last, a device of another kind is plugged into every port.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.broker import Mosquitto, listening, until
from tests.support.daemon import (
    TOPICS,
    Consumer,
    Daemon,
    Installation,
    Told,
    dollyd,
    finals_by_round,
    journaled,
    verified,
)

from dollyd.daemon.host.clock import SystemClock
from dollyd.simulators.demo.pit import Happened, Truth, evening_at, lay_out
from dollyd.simulators.demo.pit_checks import came
from dollyd.simulators.demo.tables import TABLES
from dollyd.simulators.evening import Evening
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.scenario import DeviceEntry, OrderEntry, Scenario

pytestmark = pytest.mark.long

BACK_S = 2.0
"""From the plug to `ready` (design section 10)."""
LATE_S = 4.0
"""What a busy machine may add."""
EVENINGS_S = 90.0

GAMES_AFTER = {False: 4, True: 8}
"""The last cables, by whether it is a game of dice: throws are quick, and a table may be blocked for some."""

ENDS = {
    "roulette-1": {"void device-fault"},
    "roulette-2": {"void draw-abandoned"},
    "roulette-3": {"void too-few-turns"},
    "roulette-4": {"void ball-with-rotor"},
    "roulette-5": {"void too-few-turns", "void declared"},
    "boule-1": {"void foreign-object"},
    "money-wheel-1": {"void too-few-turns", "void between-sectors"},
    "tuplanoppa-1": {"throw-rejected cocked", "throw-rejected rejected-by-person"},
    "sic-bo-1": {"throw-rejected stacked"},
    "craps-1": {"throw-rejected outside-area", "unresolved witnesses-disagree"},
}
"""How rounds and throws that do not count must have ended, at least."""

NOT_CONNECTED = {("roulette-5", "wheel")}
"""Devices that the daemon has no port of."""
SPEAK_SELDOM = {"number-display"}
"""Kinds that cannot be told to be ready before their next game."""
PORTS = [
    (table, device, entry.kind)
    for table, shown in TABLES.items()
    for device, entry in shown.evening.devices.items()
    if (table, device) not in NOT_CONNECTED
]
TLP_PORTS = [
    (table, device, kind) for table, device, kind in PORTS if kind not in {"ss2", "number-display", "truerng"}
]


def with_cables_pulled(table: str, evening: Scenario) -> Scenario:
    """First the reader's in mid-draw, then each other one's, a game each; then games until the end."""
    others = [name for name in evening.devices if name != evening.games_of]
    pulled = [name for name in (evening.games_of, *others) if (table, name) not in NOT_CONNECTED]
    orders = list(evening.orders)
    for game, name in enumerate(pulled, evening.games + 1):
        for order, after_s in (("unplug", 1.0), ("plug", 3.0)):
            orders.append(OrderEntry(name, order, at_game=game, state=3, after_s=after_s))
    more = GAMES_AFTER[evening.devices[evening.games_of].kind == "dice-camera"]
    return msgspec.structs.replace(evening, games=evening.games + len(pulled) + more, orders=tuple(orders))


@dataclass
class Evidence:
    """What was played and what came of it."""

    records: list[Told] = field(default_factory=list)
    truth: Truth = field(default_factory=lambda: {name: [] for name in TABLES})
    plugged_s: dict[tuple[str, str], float] = field(default_factory=dict)
    unplugged_ns: dict[tuple[str, str], int] = field(default_factory=dict)
    statuses: dict[tuple[str, str], list[tuple[float, dict[str, Any]]]] = field(default_factory=dict)
    """What displays were told of each device, and when."""
    wrong_from: int = 0
    """So many records were there when devices of other kinds came."""
    exit_code: int = -1
    journal: list[Told] = field(default_factory=list)
    verified: dict[str, Any] = field(default_factory=dict)
    replayed: list[dict[str, Any]] = field(default_factory=list)

    def of(self, table: str, *kinds: str) -> list[Told]:
        """The records of a table: of these kinds, or all."""
        return [r for r in self.records if r.table == table and (r.kind in kinds or not kinds)]

    def note(self, table: str, happened: Happened) -> None:
        self.truth[table].append(happened)
        if happened.get("order") == "plug":
            self.plugged_s[table, happened["device"]] = time.monotonic()
        elif happened.get("order") == "unplug":
            self.unplugged_ns[table, happened["device"]] = time.monotonic_ns()


async def play_evenings(directory: Path, evidence: Evidence) -> None:
    def at(table: str) -> Callable[[Happened], None]:
        return lambda happened: evidence.note(table, happened)

    evenings = [
        evening_at(table, with_cables_pulled(table, shown.evening), directory, at(table))
        for table, shown in TABLES.items()
    ]
    async with asyncio.timeout(EVENINGS_S), asyncio.TaskGroup() as tasks:
        for evening in evenings:
            tasks.create_task(evening.run())


async def plug_in_other_kinds(directory: Path, consumer: Consumer) -> None:
    """A ball detector at the ports of consoles, and a console at all others."""
    others = {
        f"{table}-{device}": DeviceEntry("ball-detector" if kind == "console" else "console")
        for table, device, kind in TLP_PORTS
    }
    detector = next(name for name, entry in others.items() if entry.kind == "ball-detector")
    scenario = Scenario("other kinds", 1_000, detector, others, period_ms=50)
    evening = Evening(scenario, SystemClock(), lambda link: PtyLink(directory / link), lambda _: None)
    life = asyncio.create_task(evening.run())
    try:
        await until(
            lambda: all(consumer.status(device, table) == "wrong-device" for table, device, _ in TLP_PORTS)
        )
        await asyncio.sleep(0.5)  # whatever they may say now must change nothing
    finally:
        life.cancel()
        await asyncio.wait({life})


async def play(directory: Path, broker: Mosquitto) -> Evidence:
    evidence = Evidence()
    installation = Installation(directory, broker.address, tables=())
    (directory / "odds.key").unlink()  # the tables bring their own
    installation.config.write_text(installation.config.read_text() + lay_out(directory))
    async with listening(broker, "dolly/#") as listener:
        consumer = Consumer(listener)
        with Daemon(installation) as daemon:
            await daemon.started()
            await play_evenings(directory, evidence)
            evidence.wrong_from = len(consumer.records)
            await plug_in_other_kinds(directory, consumer)
            evidence.exit_code = await daemon.stop()
        evidence.journal = journaled(installation)
        await until(lambda: len(consumer.records) >= len(evidence.journal))
        evidence.records = consumer.records
        for table, device, _ in PORTS:
            topic = TOPICS.device(table, device)
            evidence.statuses[table, device] = [
                (heard.at_s, json.loads(heard.payload)) for heard in listener.heard if heard.topic == topic
            ]
    evidence.verified = await asyncio.to_thread(verified, installation)
    replayed = await asyncio.to_thread(
        dollyd, "replay", installation.journal, "--config", installation.config, "--json"
    )
    evidence.replayed = [json.loads(line) for line in replayed.stdout.splitlines()]
    return evidence


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    """One evening for all tests: the tables play side by side."""
    with Mosquitto() as mosquitto:
        yield asyncio.run(play(tmp_path_factory.mktemp("pit"), mosquitto))


@pytest.mark.parametrize("table", TABLES)
def test_results_are_what_really_came(evidence: Evidence, table: str) -> None:
    results = evidence.of(table, "result")
    assert len(results) >= 3
    for result in results:
        at_rest_ns = result.body["evidence"]["times"]["at_rest"]["monotonic_ns"]
        real = came(evidence.truth, table, at_rest_ns)
        assert real
        assert {name: result.body["outcome"].get(name) for name in real} == real


@pytest.mark.parametrize("table", TABLES)
def test_what_does_not_count_is_ended_by_its_rule(evidence: Evidence, table: str) -> None:
    ends = evidence.of(table, "void", "unresolved", "throw-rejected")
    assert {f"{record.kind} {record.body['rule']}" for record in ends} >= ENDS[table]


@pytest.mark.parametrize("table", TABLES)
def test_a_reader_pulled_in_mid_draw_leaves_no_number(evidence: Evidence, table: str) -> None:
    reader = TABLES[table].reader if table != "roulette-5" else "display"
    pulled_ns = evidence.unplugged_ns[table, reader]
    before = [r for r in evidence.of(table, "round") if r.time["monotonic_ns"] <= pulled_ns]
    under_way = before[-1].round
    rules = {
        f"{record.kind} {record.body['rule']}"
        for record in evidence.of(table, "void", "unresolved")
        if record.round == under_way
    }
    if table != "roulette-5":  # its display says nothing in mid-draw, and so can miss nothing
        assert rules == {"unresolved device-lost", "void unrecoverable"}
        assert under_way not in [result.round for result in evidence.of(table, "result")]


@pytest.mark.parametrize("table", TABLES)
def test_play_goes_on_after_every_cable(evidence: Evidence, table: str) -> None:
    last_ns = max(ns for (at, _), ns in evidence.unplugged_ns.items() if at == table)
    after = [record for record in evidence.of(table) if record.time["monotonic_ns"] > last_ns]
    assert [record for record in after if record.kind == "result"], [(r.kind, r.round, r.body) for r in after]
    assert all(len(kinds) == 1 for kinds in finals_by_round(evidence.of(table, "result", "void")).values())


@pytest.mark.parametrize(("table", "device", "kind"), PORTS)
def test_a_device_is_back_soon_after_its_plug(evidence: Evidence, table: str, device: str, kind: str) -> None:
    plugged_s, unplugged_s = evidence.plugged_s[table, device], evidence.unplugged_ns[table, device] / 1e9
    told = [
        (at_s, status["status"]) for at_s, status in evidence.statuses[table, device] if at_s > unplugged_s
    ]
    lost_s = next(at_s for at_s, status in told if status == "lost")
    back = [at_s for at_s, status in told if at_s > lost_s and (status == "ready" or kind in SPEAK_SELDOM)]
    assert back[0] - plugged_s < BACK_S + LATE_S


@pytest.mark.parametrize(("table", "device", "kind"), TLP_PORTS)
def test_a_device_of_another_kind_is_the_wrong_device(
    evidence: Evidence, table: str, device: str, kind: str
) -> None:
    told = [record for record in evidence.records[evidence.wrong_from :] if record.table == table]
    refused = [
        record
        for record in told
        if (record.body.get("what"), record.body.get("device")) == ("device-wrong-device", device)
    ]
    assert "kind is" in refused[0].body["text"]
    assert not [record for record in told if record.kind == "result"]


def test_the_journal_holds_it_all(evidence: Evidence) -> None:
    assert evidence.exit_code == 0
    assert sorted(r.envelope for r in evidence.records) == sorted(r.envelope for r in evidence.journal)
    assert evidence.verified["ok"]


def test_every_decision_is_derived_again(evidence: Evidence) -> None:
    decided = [r for r in evidence.journal if r.kind in ("result", "void", "unresolved", "throw-rejected")]
    assert [(d["table"], d["seq"]) for d in evidence.replayed] == [(r.table, r.seq) for r in decided]
    assert [derived for derived in evidence.replayed if derived["why"]] == []
