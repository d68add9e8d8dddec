"""Wires everything in one task group: devices to tables, tables to the writer, the journal to the broker.

Device and broker trouble never ends the process. Trouble with the journal, the key or our own promises does:
systemd starts it again, into recovery from the journal.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import dollyd
from dollyd.daemon.commands.desk import CommandDesk
from dollyd.daemon.commands.marks import CommandMarks, marks_path
from dollyd.daemon.consumers.served import Consumers
from dollyd.daemon.core.events import HostIncident
from dollyd.daemon.health.halts import Halt
from dollyd.daemon.health.health import Watched, node_health, one_line
from dollyd.daemon.health.metrics import MetricsFile
from dollyd.daemon.health.upkeep import Upkeep
from dollyd.daemon.host.clock import Clock, SystemClock
from dollyd.daemon.host.hotplug import Hotplug
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.self_check import BAD, SelfCheck
from dollyd.daemon.host.systemd import Manager, Watchdog, watchdog_us
from dollyd.daemon.host.tasks import SupervisedTasks
from dollyd.daemon.journal.audit import Auditor
from dollyd.daemon.journal.file import JournalUnusableError
from dollyd.daemon.journal.measured_journal import MeasuredJournal
from dollyd.daemon.journal.store import Entry, Journal
from dollyd.daemon.journal.writer import Draft, Writer
from dollyd.daemon.link.certificates import CertificateWatch, check_pair
from dollyd.daemon.link.from_settings import mqtt_settings
from dollyd.daemon.link.inbox import Inbox
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.link.node_status import Node
from dollyd.daemon.link.publisher import Publisher
from dollyd.daemon.link.retained_book import RetainedBook
from dollyd.daemon.settings.faults import Faults
from dollyd.daemon.settings.load import Settings, TableSettings, load
from dollyd.daemon.settings.ports import check_access, check_port
from dollyd.daemon.table.chains import Keyring, load_keyring
from dollyd.daemon.table.engine import house
from dollyd.daemon.table.reload import TableChanges, check_fixed, check_versions
from dollyd.daemon.table.tables import Tables
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import Sight, look_for
from dollyd.wire.jws import keys_of_jwks
from dollyd.wire.record import Kind, SelfCheckBody, encode
from dollyd.wire.topics import Topics

CLOSE_S = 1.5
"""How long a stop waits for the disk; a longer one is a failure, and the rest is recovered at the start."""
FLUSH_S = 1.5
"""How long a stop waits for the broker's last acknowledgements."""

_LOG = Logger(__name__)


def certificate_watch(mqtt: MqttSettings, clock: Clock) -> CertificateWatch:
    """Watches every certificate that the link uses."""
    return CertificateWatch({"ca_file": mqtt.ca_file, "cert_file": mqtt.cert_file}, clock)


def open_journal(settings: Settings, keyring: Keyring) -> MeasuredJournal:
    """The node's journal, for writing. Raises `ConfigError` where the operator must act."""
    path = Path(settings.journal.path)
    remedy = "name a writable path on a local disk that no other dollyd uses"
    if look_for(path) is Sight.THERE and not path.is_file():  # a device must not be put aside as damaged
        raise ConfigError(settings.file, "journal.path", f"{path} is no file", remedy)
    try:
        keys = keys_of_jwks(signer.jwk for signer in (keyring.key, keyring.newest))
        return MeasuredJournal.open(path, keys=keys)
    except JournalUnusableError as error:
        raise ConfigError(settings.file, "journal.path", str(error), remedy) from error


def checked(settings: Settings) -> tuple[Keyring, MqttSettings]:
    """Read what the configuration names, and check the ports. Raises `ConfigError` with all that is wrong."""
    faults = Faults(settings.file)
    with faults.kept():
        keyring = load_keyring(settings)
    with faults.kept():
        mqtt = mqtt_settings(settings)
    for table in settings.tables.values():
        for device in table.devices.values():
            with faults.kept():
                check_port(settings.file, device)
                check_access(settings.file, device)
    faults.refuse()
    return keyring, mqtt


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
    """The daemon between start and stop. `finished`: a stop was asked for, and all is kept."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        manager: Manager | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Check all that the operator may have wrong; nothing is written and nothing started yet.

        `on_end` is called as soon as the end has begun, whatever it came of. Raises `ConfigError`.
        """
        self.finished = False
        self._settings = settings
        self._clock = clock or SystemClock()
        self._manager = manager or Manager()
        self._on_end = on_end
        self._random = Random(secrets.randbits(64))  # noqa: S311  spreads retries in time, nothing else
        self._keyring, self._mqtt = checked(settings)
        self._topics = Topics(settings.site)
        self._stop = asyncio.Event()
        self._reload_wanted = asyncio.Event()
        self._self_check = SelfCheck(self._clock, self._self_checked)
        self._metrics = _metrics_file(settings)

    def stop(self) -> None:
        """Ask for a graceful end."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`. Raises `ConfigError`, and an exception group for what ends a daemon."""
        loop = asyncio.get_running_loop()
        signals = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: self._reload_wanted.set,
            signal.SIGUSR1: self._self_check.ask,
        }
        for number, call in signals.items():
            loop.add_signal_handler(number, call)
        self._manager.status("opening the journal")
        journal = open_journal(self._settings, self._keyring)
        try:
            await self._run(journal, loop)
        finally:
            self._on_end()
            journal.close()
            for number in signals:
                loop.remove_signal_handler(number)

    async def _run(self, journal: MeasuredJournal, loop: asyncio.AbstractEventLoop) -> None:
        failed: asyncio.Future[None] = loop.create_future()
        fail = partial(_fail, failed)
        lost_from = journal.find_publisher_cursor()
        self._build(journal, loop, fail)
        self._publish_keyring(journal)
        self._tables.start(self._settings, self._keyring)
        self._retained_book = RetainedBook(journal.path)
        self._retained_book.begin(self._tables.topics(), self._publisher.retained)
        if lost_from is not None:
            self._tell_of_lost_cursor(lost_from, journal.last_id)
        self._consumers = Consumers(
            self._settings, self._topics, self._clock, journal, self._writer, self._inbox
        )
        for route in self._desk.routes():
            self._inbox.add(route)
        section = self._settings.journal
        every_s = section.verify_every_h * 3600
        self._auditor = Auditor(Path(section.path), self._clock, every_s, self._upkeep.audited)
        self._watched = self._watch_over(journal)
        if journal.last_id:
            self._publisher.notify(journal.entries_after(journal.last_id - 1, 1))
        self._upkeep.look_at_the_disk()  # before a device can begin a round
        self._self_check.at_start()
        if every_s and self._auditor.last is not None:
            self._upkeep.audited(self._auditor.last)
        async with asyncio.TaskGroup() as group:
            self._supervised = SupervisedTasks(group, fail)
            failure = group.create_task(_watch(failed), name="failure")
            for name, work in self._work(journal).items():
                self._supervised.begin(name, work)
            self._manager.ready()
            self._manager.status("started")
            run, node = journal.cursor("runs"), self._settings.node
            _LOG.info("started", version=dollyd.__version__, node=node, run=run, entries=journal.last_id)
            await self._stop.wait()
            await self._end()
            failure.cancel()
        _LOG.info("stopped")

    def _build(
        self, journal: MeasuredJournal, loop: asyncio.AbstractEventLoop, fail: Callable[[Exception], None]
    ) -> None:
        """The parts, as far as they need nothing of each other's start."""
        self._writer = Writer(
            journal,
            self._keyring.newest,
            site=self._settings.site,
            node=self._settings.node,
            clock=self._clock,
            on_written=lambda entries: _soon(loop, self._written, entries),
            on_failure=lambda error: _soon(loop, fail, error),
            on_crowded=lambda crowded: _soon(loop, partial(self._tables.hold, held=crowded)),
        )
        run_number = journal.cursor("runs") + 1
        journal.set_cursor("runs", run_number)
        node = Node(self._settings.node, dollyd.__version__, run_number)
        source = _Source(journal)
        self._publisher = Publisher(
            self._mqtt, self._topics, node, source, self._clock, self._random, on_held=self._table_held
        )
        self._tables = Tables(
            self._topics, self._clock, self._random, journal, source, self._writer, self._publisher, fail
        )
        self._inbox = Inbox(self._mqtt, self._clock, self._random, self._publisher.broker_in_use)
        self._desk = CommandDesk(
            self._tables.runners,
            self._topics,
            journal,
            CommandMarks(marks_path(journal.path)),
            trust=lambda: self._keyring.trust,
            node=self._settings.node,
            signer=lambda: self._keyring.newest,
            send=self._inbox.send,
            unwritten=lambda: self._writer.depth,
            clock=self._clock,
        )
        self._upkeep = Upkeep(
            self._settings,
            self._clock,
            journal,
            self._tables.runners,
            self._publish_health,
            lambda: self._tables.take_checkpoints("hourly"),
        )

    def _watch_over(self, journal: MeasuredJournal) -> Watched:
        return Watched(
            clock=self._clock,
            journal=journal,
            writer=self._writer,
            publisher=self._publisher,
            upkeep=self._upkeep,
            certificates=certificate_watch(self._mqtt, self._clock),
            tables=self._tables.runners,
            services={**self._consumers.services(), "commands": self._desk.snapshot},
            auditor=self._auditor,
        )

    async def _end(self) -> None:
        """End those who bring something, then keep and publish what they brought; the broker may be away."""
        _LOG.info("stopping")
        self._manager.stopping()
        self._on_end()
        self._desk.stop()
        self._tables.stop()
        self._supervised.end_all(but={"publisher", *self._tables.sessions()})
        self._tables.take_checkpoints("stopped")
        await asyncio.to_thread(self._writer.close, CLOSE_S)
        self._tables.show_all(now=True)
        await self._publisher.close(FLUSH_S)
        self.finished = True
        self._supervised.end_all()  # last: to let go of a device may block

    def _work(self, journal: MeasuredJournal) -> dict[str, Coroutine[Any, Any, None]]:
        """Everything that goes on until the stop, by name."""
        self._changes = TableChanges(
            self._settings.file, self._tables.runners, journal, self._writer, self._change_table
        )
        work: dict[str, Coroutine[Any, Any, None]] = {
            name: session.run() for name, session in self._tables.sessions().items()
        }
        work["publisher"] = self._publisher.run()
        work["stalls"] = self._tables.stalls.run()
        work["upkeep"] = self._upkeep.run()
        work["certificates"] = self._watched.certificates.run()
        work["self-check"] = self._self_check.run()
        work["audit"] = self._auditor.run()
        work["reload"] = self._reloads(journal)
        work["table-changes"] = self._changes.run()
        hotplug = Hotplug(self._wake_sessions)
        work["hotplug"] = hotplug.run()
        work |= self._consumers.tasks() | self._desk.tasks()
        if self._metrics is not None:
            work["metrics"] = self._metrics.run()
        if limit_us := watchdog_us():
            # Sessions wait for devices, changes of tables for sessions, the others for a clock or for people.
            pulses = {
                "publisher": self._publisher.pulse,
                "upkeep": self._upkeep.pulse,
                "commands": self._desk.pulse,
                "hotplug": hotplug.pulse,
                **self._consumers.pulses(),
            }
            dog = Watchdog(
                limit_us, self._manager, self._clock, self._writer, lambda: self._supervised.missing, pulses
            )
            work["watchdog"] = dog.run()
        return work

    def _wake_sessions(self) -> None:
        """Something was plugged in: look for it now, not after the pause."""
        for session in self._tables.sessions().values():
            session.wake()

    # --- what happens all along ----------------------------------------------------------------------

    def _written(self, entries: list[Entry]) -> None:
        """Records are durable."""
        self._publisher.notify(entries)
        self._consumers.written(entries)
        self._desk.written()
        self._tables.written(entries, stopping=self._stop.is_set())
        self._changes.look()

    def _tell_of_lost_cursor(self, cursor: int, newest: int) -> None:
        """What was published before is not known: every chain says that some of it may come again."""
        text = f"what was published is not known: entries after {cursor} of {newest} go out (again)"
        _LOG.warning("cursor_lost", sent_after=cursor, newest=newest)
        for runner in self._tables.runners.values():
            runner.tell(house(HostIncident("cursor-lost", text), self._clock.stamp()))

    def _table_held(self, table: str, text: str) -> None:
        """The broker does not take a record of a table: it is said in that chain, whoever reads it later."""
        if table in self._tables.runners:
            incident = HostIncident("record-not-taken", text)
            self._tables.runners[table].tell(house(incident, self._clock.stamp()))

    def _self_checked(self, answer: SelfCheckBody) -> None:
        """Keep the answer in every chain, and let no round begin while a file differs."""
        for name in self._tables.runners:
            self._writer.submit(Draft(name, Kind.SELF_CHECK, 0, encode(answer), self._clock.stamp()))
        self._upkeep.halts.put(Halt.SELF_CHECK, holds=answer.result == BAD)

    def _publish_keyring(self, journal: Journal) -> None:
        self._publisher.retained.put(self._topics.node_keys(self._settings.node), self._keyring.jwks())
        if self._keyring.trust is not None and self._settings.signing.publish_trust:
            self._publisher.retained.put(self._topics.trust(), self._keyring.trust.envelope)
        self._keyring.warn_of_mistrust(self._clock.stamp(), self._settings.tables, journal)

    def _publish_health(self) -> None:
        health = node_health(self._watched)
        topic = self._topics.node_health(self._settings.node)
        self._publisher.retained.put(topic, msgspec.json.encode(health))
        if self._metrics is not None:
            self._metrics.offer(health)
        self._tables.show_all()
        connected = bool(self._publisher.broker_in_use())
        self._retained_book.look(self._tables.topics(), self._publisher.retained, connected=connected)
        self._manager.status(one_line(health, self._changes.waiting, self._upkeep.halts.event.reason))

    # --- another configuration -----------------------------------------------------------------------

    async def _reloads(self, journal: Journal) -> None:
        """SIGHUP: read everything again; of a configuration with a mistake nothing is taken.

        Certificates are read by the next link, which is built when what is in flight is acknowledged.
        """
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted.clear()
            self._manager.reloading()
            try:
                await self._reload(journal)
            except ConfigError as error:
                for one in error.all:
                    _LOG.error("reload_refused", error=str(one))
            self._manager.ready()

    async def _reload(self, journal: Journal) -> None:
        """Raises `ConfigError` while nothing is changed yet."""
        old, new = self._settings, await asyncio.to_thread(load, Path(self._settings.file))
        keyring, mqtt = await asyncio.to_thread(checked, new)
        await asyncio.to_thread(check_pair, new.file, mqtt.ca_file, mqtt.cert_file, mqtt.key_file)
        keyring = keyring.replacing(self._keyring)
        check_fixed(old, new)
        check_versions(new, self._tables.runners, journal)
        self._settings, self._keyring = new, keyring
        self._publish_keyring(journal)
        self._writer.rotate(keyring.newest, self._clock.stamp())
        self._upkeep.use(new)
        self._consumers.use(new)
        await self._reload_links(mqtt)
        if new.metrics != old.metrics:
            await self._supervised.end("metrics")
            self._metrics = _metrics_file(new)
            if self._metrics is not None:
                self._supervised.begin("metrics", self._metrics.run())
        self._changes.want(new.tables)
        _LOG.info("reloaded", kid=keyring.newest.kid, tables_to_change=len(self._changes.waiting))

    async def _reload_links(self, mqtt: MqttSettings) -> None:
        """Build the links anew where their settings change, certificates or limits may have."""
        denied = self._publisher.stats.denied
        if mqtt == self._mqtt and not (mqtt.ca_file or mqtt.cert_file or denied):
            return
        self._mqtt = mqtt
        self._publisher.reconnect(mqtt)
        self._inbox.reconnect(mqtt)
        await self._supervised.end("certificates")
        self._watched = replace(self._watched, certificates=certificate_watch(mqtt, self._clock))
        self._supervised.begin("certificates", self._watched.certificates.run())

    async def _change_table(self, name: str, new: TableSettings | None) -> None:
        """Carry out what `TableChanges` found the moment for."""
        if new is None:
            ended, begun = self._tables.remove(name), list[str]()
            self._consumers.remove(name)
            self._inbox.remove(self._topics.command(name))
        elif name in self._tables.runners:
            ended, begun = self._tables.change(new)
        else:
            runner = self._tables.add(new, self._keyring)
            ended, begun = [], list(runner.sessions)
            if self._upkeep.halts.event.reason:
                runner.tell(house(self._upkeep.halts.event, self._clock.stamp()))
            self._consumers.add(name)
            self._inbox.add(self._desk.route(name))
            self._inbox.reconnect()
        await self._supervised.end(*(f"{name}/{device}" for device in ended))
        for device in begun:
            session = self._tables.runners[name].sessions[device]
            self._supervised.begin(f"{name}/{device}", session.run())


def _metrics_file(settings: Settings) -> MetricsFile | None:
    return MetricsFile(Path(settings.metrics.file)) if settings.metrics.file else None


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
