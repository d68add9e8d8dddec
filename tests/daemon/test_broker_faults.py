"""The publisher against brokers and lines that fail in the ways of the field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.broker import Line, Mosquitto, Stream, listening, until
from tests.support.publishing import (
    TOPICS,
    Journal,
    entries,
    make,
    retained,
    running,
    settings,
    statuses,
    without_repeats,
)
from tests.support.site_broker import Authority

from dollyd.daemon.link.mqtt import Cause


class DeafLine(Line):
    """A line that can lose everything the broker says, while the broker hears all."""

    def carriers(
        self, near: Stream, far: Stream
    ) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        return self._always(near[0], far[1]), self._carry(far[0], near[1])

    async def _always(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


class ShortLine(Line):
    """A line that is cut each time when so many bytes have gone to the broker."""

    def __init__(self, broker: Mosquitto, length_bytes: int) -> None:
        super().__init__(broker)
        self.length_bytes = length_bytes
        self.cuts = 0

    def carriers(
        self, near: Stream, far: Stream
    ) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        return self._some(near[0], far[1], near[1]), self._carry(far[0], near[1])

    async def _some(
        self, near: asyncio.StreamReader, far: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        left = self.length_bytes
        while left > 0 and (data := await near.read(min(left, 65536))):
            far.write(data)
            left -= len(data)
        await asyncio.sleep(0.02)  # what it has answered arrives
        self.cuts += left <= 0
        far.close()
        back.close()


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


async def test_b32_black_holed_acknowledgements_make_repeats_that_can_be_told(broker: Mosquitto) -> None:
    """The broker has the records, we never hear so: they come again, the same bytes in the same order."""
    journal = Journal()
    async with DeafLine(broker) as line:
        publisher = make(settings(f"127.0.0.1:{line.port}"), journal)
        async with listening(broker, TOPICS.every_record()) as listener, running(publisher):
            await until(lambda: publisher.stats.connected)
            for _ in range(3):
                line.open.clear()
                kept = journal.kept
                publisher.notify(journal.append(20))
                await until(lambda: publisher.stats.last_error == Cause.UNACKNOWLEDGED)
                await until(lambda: not publisher.stats.connected)
                assert journal.kept == kept
                line.open.set()
                await until(lambda: journal.kept == journal.newest)
            await until(lambda: 60 in entries(listener))
    heard = entries(listener)
    assert without_repeats(heard) == list(range(1, 61))
    assert len(heard) > 60
    assert len(set(listener.payloads())) == 60


async def test_b34_the_will_of_an_older_session_is_told_from_the_new_birth(broker: Mosquitto) -> None:
    """The old life ends after the new one has begun: the session number says which counts."""
    async with Line(broker) as line, listening(broker, TOPICS.every_node_status()) as listener:
        old = replace(settings(f"127.0.0.1:{line.port}"), client_id="node-1-before")
        async with running(make(old, Journal(), session=41)) as task:
            await until(lambda: statuses(listener) == [("online", 41)])
            line.open.clear()  # the old machine hangs, its connection stands
            async with running(make(settings(broker.address), Journal(), session=42)):
                await until(lambda: statuses(listener)[-1] == ("online", 42))
                task.cancel()
                line.open.set()
                await until(lambda: ("offline", 41) in statuses(listener))
                newest = max(session for _, session in statuses(listener))
                of_newest = [state for state, session in statuses(listener) if session == newest]
                assert set(of_newest) == {"online"}


async def test_b35_online_that_outlived_node_and_broker_says_when_it_ends() -> None:
    with Mosquitto(persistence=True) as broker:
        mqtt = replace(settings(broker.address), keepalive_s=1)
        async with running(make(mqtt, Journal(), session=7)) as task:
            await asyncio.sleep(0.2)
            broker.save()
            broker.kill()
            task.cancel()
        broker.start()
        status = json.loads(await retained(broker, TOPICS.node_status("node-1")))
    assert (status["state"], status["session"]) == ("online", 7)
    until_when = datetime.fromisoformat(status["valid_until"][:19] + "+00:00")
    assert until_when <= datetime.now(UTC) + timedelta(seconds=3)


async def test_f3_f4_a_backlog_drains_over_short_links_and_nobody_is_accused(broker: Mosquitto) -> None:
    """Each link carries fewer records than the window that a restarted broker is sent again."""
    journal = Journal(newest=600)
    async with ShortLine(broker, length_bytes=100_000) as line:
        publisher = make(settings(f"127.0.0.1:{line.port}"), journal, republish=500)
        with capture_logs() as logs:
            async with listening(broker, "dolly/#") as listener, running(publisher):
                publisher.retained.put(TOPICS.state("t0"), b"open")
                await until(lambda: b"open" in listener.payloads("/t0/state"))
                assert journal.kept < 600  # states do not wait for the backlog
                await until(lambda: journal.kept == 600, within_s=60)
                await until(lambda: 600 in entries(listener))
        assert line.cuts > 8
        stats = publisher.stats
        assert stats.repeats < 25 * line.cuts  # what was on its way at each cut
        assert set(stats.lost) == {Cause.CLOSED}
    assert without_repeats(entries(listener)) == list(range(1, 601))
    assert not [log for log in logs if log["log_level"] == "error"]


async def test_f4_a_broker_that_restarts_often_is_no_takeover() -> None:
    """A frequent restart with the session kept is told as what it is, whatever its number."""
    with Mosquitto(persistence=True) as restarted:
        publisher = make(settings(restarted.address), Journal(newest=5))
        async with running(publisher):
            for links in range(1, 7):
                await until(lambda wanted=links: publisher.stats.links >= wanted)  # type: ignore[misc]  # now
                await until(lambda: publisher.stats.connected)
                restarted.stop()
                await until(lambda: not publisher.stats.connected)
                restarted.start()
            await until(lambda: publisher.stats.connected)
            assert Cause.TAKEN_OVER not in publisher.stats.lost


# --- several brokers -----------------------------------------------------------------------------


async def test_a_second_broker_takes_over_and_keeps_the_stream_until_it_fails_itself() -> None:
    """Back and forth, nothing is lost or out of order on either; the first is not returned to for nothing."""
    journal = Journal()
    with Mosquitto() as first, Mosquitto() as second:
        publisher = make(settings(first.address, second.address), journal, republish=100)
        records = TOPICS.every_record()
        async with (
            listening(first, records, name="at-first") as at_first,
            listening(second, records, name="at-second") as at_second,
            running(publisher),
        ):
            await until(lambda: publisher.stats.broker == first.address)
            publisher.notify(journal.append(30))
            await until(lambda: journal.kept == 30)
            first.kill()
            publisher.notify(journal.append(10))
            await until(lambda: journal.kept == 40)
            assert publisher.stats.broker == second.address
            first.start()
            await until(at_first.connected.is_set)
            publisher.notify(journal.append(10))
            await until(lambda: journal.kept == 50)
            assert publisher.stats.broker == second.address
            await until(lambda: len(set(entries(at_second))) == 50)
            second.kill()
            publisher.notify(journal.append(10))
            await until(lambda: journal.kept == 60)
            assert publisher.stats.broker == first.address
            await until(lambda: len(set(entries(at_first))) == 60)
    assert without_repeats(entries(at_first)) == list(range(1, 61))
    assert without_repeats(entries(at_second)) == list(range(1, 51))


# --- a new link on request -----------------------------------------------------------------------


async def test_b37_a_reload_brings_the_new_certificate_and_loses_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("broker")
    authority.issue("before")
    authority.issue("after")

    def use(name: str) -> None:
        for kind in ("crt", "key"):
            (tmp_path / f"box1.{kind}").write_bytes((tmp_path / f"{name}.{kind}").read_bytes())

    tls = f"cafile {tmp_path}/ca.crt\ncertfile {tmp_path}/broker.crt\nkeyfile {tmp_path}/broker.key"
    with Mosquitto(f"{tls}\nrequire_certificate true\nuse_identity_as_username true") as broker:
        mqtt = replace(
            settings(f"mqtts://{broker.address}"),
            ca_file=str(authority.ca_file),
            cert_file=str(tmp_path / "box1.crt"),
            key_file=str(tmp_path / "box1.key"),
            ack_deadline_s=5,
        )
        journal = Journal()
        publisher = make(mqtt, journal)
        use("before")
        async with running(publisher):
            await until(lambda: publisher.stats.connected)
            use("after")
            publisher.notify(journal.append(100))
            publisher.reconnect()
            publisher.notify(journal.append(100))
            await until(lambda: publisher.stats.links == 2 and journal.kept == 200)
            stats = publisher.stats
            assert (stats.repeats, stats.lost, stats.last_error) == (0, {}, "")
        assert "u'before'" in broker.log
        assert "u'after'" in broker.log


async def test_a_reload_is_no_death(broker: Mosquitto) -> None:
    journal = Journal()
    publisher = make(settings(broker.address), journal)
    with capture_logs() as logs:
        async with listening(broker, TOPICS.every_node_status()) as listener, running(publisher):
            await until(lambda: publisher.stats.connected)
            publisher.notify(journal.append())
            await until(lambda: journal.kept == 1)
            publisher.reconnect()
            await until(lambda: publisher.stats.links == 2)
            await until(lambda: len(listener.heard) >= 2)
            publisher.reconnect()
            await until(lambda: publisher.stats.links == 3)
            await publisher.close(deadline_s=2)
            await until(lambda: ("offline", 1) in statuses(listener))
    assert [state for state, _ in statuses(listener)][:-1] == ["online"] * 3
    assert [log["event"] for log in logs] == ["broker_connected"]
