"""What a site shows of itself to a person who asks once: in words, with their age, stale or not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import msgspec
import pytest
from tests.support.broker import Mosquitto
from tests.support.chains import SITE, UTC, keys, signer
from tests.support.daemon import Installation
from tools.schemas.evening import Evening
from typer.testing import CliRunner

from dollyd.daemon.cli import application
from dollyd.daemon.core.void_rules import INSPECTED_AFTER
from dollyd.daemon.journal.entry import utc_ns
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.site.lines import in_lines
from dollyd.daemon.site.status import CHECKED, NOT_CHECKED, SiteStatus, site_status
from dollyd.daemon.table.state_topics import Since, TableState
from dollyd.drivers.spec import Status
from dollyd.wire.key_source import source_of
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.topics import Topics

TOPICS = Topics(SITE)
NOW_NS = utc_ns(UTC) + 90 * NS_PER_S
STATE: dict[str, Any] = {
    "table": "r1", "game": "roulette", "variant": "A", "phase": "blocked", "round": 2, "mode": "auto",
    "chain": "a" * 32, "results": 1, "manual_results": 0, "blocked": "data-gap", "reload_waits": False,
    "devices": {"wheel": "lost"}, "last": [], "time": UTC,
}  # fmt: skip
PLAYING = STATE | {"phase": "bets-open", "blocked": ""}
DEVICE = {"device": "wheel", "status": "lost", "cause": "eof", "time": UTC}
HEALTH = {
    "time": UTC,
    "clock": {"synchronised": True, "error_bound_us": 40},
    "journal": {
        "entries": 7, "disk_free_bytes": 5 << 30, "verified_time": UTC, "verified_records": 7,
        "verified_problems": 0,
    },
    "publisher": {"connected": True, "broker": "b:1883", "queue": 0},
    "devices": {"r1/wheel": {}},
}  # fmt: skip
LAST = Evening().open().result(1).envelopes[-1]


def heard(now_ns: int = NOW_NS, table: dict[str, Any] = STATE, **changes: bytes) -> dict[str, bytes]:
    """What a broker keeps of a site with one table; a part can be changed, or left out by nothing."""
    parts = {
        "status": (TOPICS.node_status("box1"), Node("box1", "1.0", 3).status("online", now_ns, 30)),
        "health": (TOPICS.node_health("box1"), json.dumps(HEALTH).encode()),
        "state": (TOPICS.state("r1"), json.dumps(table).encode()),
        "device": (TOPICS.device("r1", "wheel"), json.dumps(DEVICE).encode()),
        "last": (TOPICS.last("r1"), LAST),
    }
    return {topic: changes.get(name, payload) for name, (topic, payload) in parts.items()}


def said(payloads: dict[str, bytes], trusted: Any = None) -> tuple[SiteStatus, str]:
    found = site_status(SITE, "b:1883", payloads, NOW_NS, trusted and source_of(trusted))
    return found, "\n".join(in_lines(found))


def test_a_blocked_table_is_told_with_its_reason_in_words_and_the_next_command() -> None:
    found, text = said(heard())
    assert not found.good
    assert "table r1: roulette A, blocked, round 2, for 90 s" in text
    assert "BLOCKED by data-gap: the device was silent inside the draw" in text
    assert "dollyd table --table r1 --role ROLE --key FILE void --round 2" in text
    assert "wheel: lost (eof), for 90 s" in text
    assert f"last: result of round 1: 28 black, 90 s ago ({NOT_CHECKED})" in text
    assert "broker: connected, b:1883; 0 records wait, said 90 s ago" in text
    assert f"journal: 7 records, verified: sound at {UTC}; 5120 MiB free" in text
    assert "STALE" not in text


def test_a_table_in_play_is_good() -> None:
    found, text = said(heard(table=PLAYING))
    assert found.good, text


def test_an_inspection_that_is_awaited_has_its_own_next_command() -> None:
    found, _ = said(heard(table=PLAYING | {"phase": "waiting", "blocked": min(INSPECTED_AFTER)}))
    assert found.tables[0].next == "dollyd table --table r1 --role ROLE --key FILE inspected"
    found, _ = said(heard(table=PLAYING | {"blocked": "disk-full"}))
    assert "doctor" in found.tables[0].next


@pytest.mark.parametrize(
    ("payloads", "why"),
    [
        (heard(NOW_NS - 91 * NS_PER_S, PLAYING), "node box1 should have spoken 1 s ago"),
        (
            heard(table=PLAYING, status=Node("box1", "1.0", 3).status("offline", NOW_NS, 30)),
            "node box1 is offline",
        ),
        (heard(table=PLAYING, health=b""), "no node counts its devices as its own"),
        (heard(table=PLAYING, status=b"{"), "node box1: what came is not in its form"),
    ],
)
def test_what_no_node_vouches_for_is_stale(payloads: dict[str, bytes], why: str) -> None:
    found, text = said(payloads)
    assert f"STALE: {why}" in text
    assert not found.good


def test_the_last_record_is_checked_by_keys_that_are_given() -> None:
    found, _ = said(heard(table=PLAYING), keys(signer()))
    assert (found.tables[0].last is not None and found.tables[0].last.checked) == CHECKED
    assert found.good
    strange, text = said(heard(table=PLAYING), keys(signer(9)))
    assert "unknown key" in text
    assert not strange.good
    forged = heard(table=PLAYING, last=LAST[:-6] + b"AAAA" + LAST[-2:])
    assert "signature" in said(forged, keys(signer()))[1].split("last: ")[1]
    moved = {topic.replace("/r1/", "/r2/"): payload for topic, payload in heard(table=PLAYING).items()}
    assert "it is a record of table r1" in said(moved, keys(signer()))[1]


@pytest.mark.parametrize("junk", [b"{", b"[]", b"{}", b"\xff", b"null", b'{"phase":1}'])
@pytest.mark.parametrize("part", ["status", "health", "state", "device", "last"])
def test_what_is_not_in_its_form_is_said_to_be_so_and_ends_nothing(part: str, junk: bytes) -> None:
    payloads = heard(table=PLAYING)
    topic = next(topic for topic in payloads if part in topic.split("/"))
    found, text = said(payloads | {topic: junk})
    assert text
    assert found.good == (part == "device")


def test_what_is_told_keeps_its_time_until_it_changes() -> None:
    """Else a state would be published again at every beat."""
    state = msgspec.convert({name: value for name, value in STATE.items() if name != "time"}, TableState)
    since = Since()
    first = since.told("r1", state, "1")
    assert since.told("r1", state, "2") == first
    assert json.loads(first)["time"] == "1"
    changed = msgspec.structs.replace(state, devices={"wheel": Status.READY})
    assert json.loads(since.told("r1", changed, "3"))["time"] == "3"


# --- the command, at a broker ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as started:
        yield started


def keep(broker: Mosquitto, payloads: dict[str, bytes]) -> None:
    async def publish() -> None:
        async with aiomqtt.Client(broker.host, broker.port, identifier="keeper") as keeper:
            for topic, payload in payloads.items():
                await keeper.publish(topic, payload, qos=1, retain=True)

    asyncio.run(publish())


def test_the_command_tells_what_the_broker_keeps_and_what_is_missing(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Installation(tmp_path, broker.address, variant="A")
    where = ["status", "--config", str(installed.config)]
    keep(broker, heard(time.time_ns(), PLAYING | {"time": iso_utc(time.time_ns())}))
    run = CliRunner().invoke(application, [*where, "--json"])
    told = json.loads(run.output)
    assert (run.exit_code, told["missing"]) == (0, []), run.output
    (table,) = told["tables"]
    assert (table["table"], table["node"], table["last"]["outcome"]) == ("r1", "box1", "28 black")
    monkeypatch.setattr("dollyd.daemon.site.hearing.WAIT_S", 1)
    nothing = CliRunner().invoke(application, ["status", "--broker", broker.address, "--site", "nowhere"])
    assert nothing.exit_code == 1
    assert "NOT HEARD: anything of site nowhere" in nothing.output
    keep(broker, {TOPICS.state("r1"): b""})
    run = CliRunner().invoke(application, where)
    assert run.exit_code == 1
    assert (
        "NOT HEARD: state of table r1: the user of this link (no certificate) may not read it" in run.output
    )


def test_a_broker_that_is_away_is_one_line() -> None:
    run = CliRunner().invoke(application, ["status", "--broker", "127.0.0.1:1", "--site", SITE])
    assert run.exit_code == 1
    assert run.output.startswith("no: broker 127.0.0.1:1: ")
    assert run.output.count("\n") == 1
