"""Wires everything in one task group: devices to tables, tables to the writer, the journal to the broker.

Device and broker trouble never ends the process. Trouble with the journal, the key or our own promises does:
systemd starts it again, into recovery from the journal.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import structlog

import dollyd
from dollyd.client.jws import parse_envelope
from dollyd.daemon.clock import Clock, SystemClock
from dollyd.daemon.core.record import Kind
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.health import health
from dollyd.daemon.journal import Entry, Journal
from dollyd.daemon.journal_file import JournalUnusableError
from dollyd.daemon.mqtt import MqttSettings, parse_broker
from dollyd.daemon.ports import check_port
from dollyd.daemon.publisher import Node, Publisher
from dollyd.daemon.settings import Settings
from dollyd.daemon.signing import Signer, load_signer
from dollyd.daemon.table import TableRunner
from dollyd.daemon.topics import Topics
from dollyd.daemon.upkeep import Upkeep
from dollyd.daemon.version_change import check_version_change
from dollyd.daemon.writer import Writer, chain_start

ACK_DEADLINE_S = 10
IN_FLIGHT_MAX = 20
SHOW_AFTER_S = 0.01
"""How long displays wait behind the records of the same moment, which the writer signs meanwhile."""
FLUSH_S = 2.0
"""How long a stop waits for the broker's last acknowledgements."""

_LOG = structlog.get_logger(__name__)


def mqtt_settings(settings: Settings) -> MqttSettings:
    """The link's settings; reads the password. Raises `ConfigError`."""
    section, file = settings.mqtt, settings.file
    for broker in section.brokers:
        try:
            parse_broker(broker)
        except ValueError as error:
            remedy = "give host:port or mqtts://host:port"
            raise ConfigError(file, "mqtt.brokers", f"{broker!r}: {error}", remedy) from error
    password = None
    if section.password_file:
        try:
            password = Path(section.password_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            remedy = "name a readable file that holds the password"
            raise ConfigError(file, "mqtt.password_file", str(error), remedy) from error
    for key in ("ca_file", "cert_file", "key_file"):
        path = getattr(section, key)
        if path and not Path(path).is_file():
            raise ConfigError(
                file, f"mqtt.{key}", f"{path} is no file", "name an existing file or leave it out"
            )
    return MqttSettings(
        brokers=section.brokers,
        client_id=section.client_id or f"dollyd-{settings.site}-{settings.node}",
        protocol=section.protocol,
        username=section.username or None,
        password=password,
        ca_file=section.ca_file or None,
        cert_file=section.cert_file or None,
        key_file=section.key_file or None,
        keepalive_s=section.keepalive_s,
        ack_deadline_s=ACK_DEADLINE_S,
        in_flight_max=IN_FLIGHT_MAX,
    )


def open_journal(settings: Settings) -> Journal:
    """The node's journal, for writing. Raises `ConfigError` where the operator must act."""
    try:
        return Journal.open(Path(settings.journal.path))
    except JournalUnusableError as error:
        remedy = "name a writable path on a local disk that no other dollyd uses"
        raise ConfigError(settings.file, "journal.path", str(error), remedy) from error


class _Source:
    """The journal as the publisher reads it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def entries_after(self, id_: int, limit: int, /) -> list[Entry]:
        return self._journal.entries_after(id_, limit)

    def cursor(self) -> int:
        return self._journal.cursor("publisher")

    def set_cursor(self, id_: int, /) -> None:
        self._journal.set_cursor("publisher", id_)


class App:
    """The daemon between start and stop."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        """Check all that the operator may have wrong; nothing is written and nothing started yet.

        Raises `ConfigError`.
        """
        self._settings = settings
        self._clock = clock or SystemClock()
        self._random = Random(secrets.randbits(64))  # noqa: S311  spreads retries in time, nothing else
        self._signer: Signer = load_signer(
            Path(settings.signing.key), config_file=settings.file, key="signing.key"
        )
        self._mqtt = mqtt_settings(settings)
        for table in settings.tables.values():
            for device in table.devices.values():
                check_port(settings.file, device, must_exist=False)
        self._topics = Topics(settings.site)
        self._stop = asyncio.Event()
        self._to_show: set[str] = set()

    def stop(self) -> None:
        """Ask for a graceful end."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`. Raises `ConfigError`, and an exception group for what ends a daemon."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        journal = open_journal(self._settings)
        try:
            await self._run(journal, loop)
        finally:
            journal.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _run(self, journal: Journal, loop: asyncio.AbstractEventLoop) -> None:
        failed: asyncio.Future[None] = loop.create_future()
        writer = Writer(
            journal,
            self._signer,
            site=self._settings.site,
            node=self._settings.node,
            clock=self._clock,
            on_written=lambda entries: _soon(loop, self._written, entries),
            on_failure=lambda error: _soon(loop, _fail, failed, error),
        )
        run_number = journal.cursor("runs") + 1
        journal.set_cursor("runs", run_number)
        node = Node(self._settings.node, dollyd.__version__, run_number)
        self._publisher = Publisher(
            self._mqtt, self._topics, node, _Source(journal), self._clock, self._random
        )
        self._publisher.set_retained(
            self._topics.node_keys(node.name), msgspec.json.encode({"keys": [self._signer.jwk]})
        )
        self._tables = {
            name: TableRunner(table, writer, self._clock, self._random, self._show)
            for name, table in self._settings.tables.items()
        }
        self._start_tables(journal, writer)
        upkeep = Upkeep(
            self._settings,
            self._clock,
            journal,
            self._tables,
            lambda: self._publish_health(journal, writer, upkeep.loop_lag_ms),
        )
        if journal.last_id:
            self._publisher.notify(journal.entries_after(journal.last_id - 1, 1))
        _LOG.info(
            "started", version=dollyd.__version__, node=node.name, run=run_number, entries=journal.last_id
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publisher.run(), name="publisher")
            failure = tasks.create_task(_watch(failed), name="writer-failure")
            workers = [
                tasks.create_task(session.run(), name=f"{table.name}/{name}")
                for table in self._tables.values()
                for name, session in table.sessions.items()
            ]
            workers.append(tasks.create_task(upkeep.run(), name="upkeep"))
            await self._stop.wait()
            _LOG.info("stopping")
            for table in self._tables.values():
                table.stop()
            for worker in workers:
                worker.cancel()
            await asyncio.to_thread(writer.close)
            for table in self._tables.values():
                self._show_now(table)
            await self._publisher.close(FLUSH_S)
            failure.cancel()
        _LOG.info("stopped")

    def _start_tables(self, journal: Journal, writer: Writer) -> None:
        at = self._clock.stamp()
        tails = {name: journal.tail(name) for name in self._tables}
        for name, tail in tails.items():
            check_version_change(self._settings.file, self._settings.tables[name], tail)
        for name, tail in tails.items():
            writer.start_chain(name, tail)
            if tail is None:
                writer.submit(chain_start(name, self._signer, at, journal.damage))
        writer.start()
        if journal.damage is not None:
            _LOG.error("journal_damaged", kept_as=str(journal.damage.path))
        for name, table in self._tables.items():
            table.start(tails[name])
            self._show(table)

    # --- what happens all along ----------------------------------------------------------------------

    def _written(self, entries: list[Entry]) -> None:
        """Records are durable: publish them, and let displays show the results."""
        self._publisher.notify(entries)
        for entry in entries:
            if entry.kind == Kind.RESULT:
                body = msgspec.json.decode(parse_envelope(entry.envelope).payload)["body"]
                self._tables[entry.table].written(entry.kind, entry.round, body["outcome"])

    def _show(self, table: TableRunner) -> None:
        """Tell displays of a change, soon; further changes until then are told with it."""
        if table.name not in self._to_show:
            self._to_show.add(table.name)
            asyncio.get_running_loop().call_later(SHOW_AFTER_S, self._show_now, table)

    def _show_now(self, table: TableRunner) -> None:
        self._to_show.discard(table.name)
        self._publisher.set_retained(self._topics.state(table.name), table.state())
        for device in table.settings.devices:
            self._publisher.set_retained(self._topics.device(table.name, device), table.device(device))

    def _publish_health(self, journal: Journal, writer: Writer, loop_lag_ms: int) -> None:
        payload = health(self._clock, journal, writer, self._publisher, self._tables.values(), loop_lag_ms)
        self._publisher.set_retained(self._topics.node_health(self._settings.node), payload)
        for table in self._tables.values():
            self._show(table)


def _soon(loop: asyncio.AbstractEventLoop, call: Any, *arguments: Any) -> None:
    """From the writer's thread into the loop, unless the loop has ended before."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(partial(call, *arguments))


def _fail(failed: asyncio.Future[None], error: Exception) -> None:
    if not failed.done():
        failed.set_exception(error)


def _watch(failed: asyncio.Future[None]) -> Coroutine[Any, Any, None]:
    async def watch() -> None:
        await failed

    return watch()
