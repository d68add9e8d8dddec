"""All tables of the node: how they begin, change and end, and what displays are told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

import msgspec

from dollyd.daemon.core.events import TableClosed
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.host.stall import StallWatch
from dollyd.daemon.journal.store import Entry, Journal, Tail
from dollyd.daemon.journal.stream_source import Source
from dollyd.daemon.journal.tail import BY_CONFIGURATION
from dollyd.daemon.journal.writer import Writer
from dollyd.daemon.link.publisher import Publisher
from dollyd.daemon.settings.load import Settings, TableSettings
from dollyd.daemon.table.chains import Keyring, start_chains
from dollyd.daemon.table.engine import house
from dollyd.daemon.table.record_words import TOLD, words_of
from dollyd.daemon.table.runner import TableRunner
from dollyd.daemon.table.session import DeviceSession
from dollyd.daemon.table.version_change import check_version_change
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind
from dollyd.wire.topics import Topics

SHOW_AFTER_S = 0.01
"""How long displays wait behind the records of the same moment, which the writer signs meanwhile."""

_READ = {*TOLD, Kind.SESSION}
_LOG = Logger(__name__)


class Tables:
    """The runners by name, in `runners`, which others may hold: tables come and go in it."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        random: Random,
        journal: Journal,
        source: Source,
        writer: Writer,
        publisher: Publisher,
        fail: Callable[[Exception], None],
    ) -> None:
        self.stalls = StallWatch(clock, self._stalled)
        self.runners: dict[str, TableRunner] = {}
        self._topics = topics
        self._clock = clock
        self._random = random
        self._journal = journal
        self._source = source
        self._writer = writer
        self._publisher = publisher
        self._fail = fail
        self._held = False
        self._to_show: set[str] = set()

    # --- life ----------------------------------------------------------------------------------------

    def start(self, settings: Settings, keyring: Keyring) -> None:
        """Begin with all tables of a configuration, and the writer. Raises `ConfigError`."""
        tails = {name: self._journal.tail(name) for name in settings.tables}
        for name, tail in tails.items():
            check_version_change(settings.file, settings.tables[name], tail, self._journal)
        self._begin(settings.tables, tails, keyring)
        self._writer.start()
        if self._journal.damage is not None:
            _LOG.error("journal_damaged", kept_as=str(self._journal.damage.path))

    def add(self, settings: TableSettings, keyring: Keyring) -> TableRunner:
        """One more table, which goes on where the journal ends; gives its runner."""
        name = settings.setup.table
        self._begin({name: settings}, {name: self._journal.tail(name)}, keyring)
        return self.runners[name]

    def change(self, settings: TableSettings) -> tuple[list[str], list[str]]:
        """Another fitting out of a table between two rounds; gives the devices that ended, and that began."""
        runner = self.runners[settings.setup.table]
        gone = runner.settings.devices.keys() - settings.devices.keys()
        ended, begun = runner.reconfigure(settings)
        for device in gone:
            self._publisher.retained.put(self._topics.device(runner.name, device), b"")
        return ended, begun

    def remove(self, name: str) -> list[str]:
        """A table goes, between two rounds; gives its devices. Its chain ends as that of a closed table."""
        runner = self.runners[name]
        if runner.engine.table.open:
            runner.tell(house(TableClosed(BY_CONFIGURATION), self._clock.stamp()))
        devices = list(runner.sessions)
        runner.leave()
        del self.runners[name]
        for topic in (self._topics.state(name), *(self._topics.device(name, device) for device in devices)):
            self._publisher.retained.put(topic, b"")
        return devices

    def topics(self) -> set[str]:
        """The retained topics that are said of all tables, without those that are records."""
        return {
            topic
            for name, runner in self.runners.items()
            for topic in (
                self._topics.state(name),
                *(self._topics.device(name, device) for device in runner.settings.devices),
            )
        }

    def sessions(self) -> dict[str, DeviceSession]:
        """All device sessions, by `<table>/<device>`."""
        return {
            f"{runner.name}/{device}": session
            for runner in self.runners.values()
            for device, session in runner.sessions.items()
        }

    def hold(self, *, held: bool) -> None:
        """Read no device while too many records wait for the disk; nothing that was heard is lost by that."""
        if held != self._held:
            self._held = held
            _LOG.warning("ports_held" if held else "ports_read_again", records_waiting=self._writer.depth)
            for runner in self.runners.values():
                runner.hold(held=held)

    def _stalled(self, length_ms: int) -> None:
        _LOG.error("host_stalled", length_ms=length_ms)
        for runner in self.runners.values():
            runner.stalled(length_ms)

    def stop(self) -> None:
        """Take nothing more from devices and timers; the sessions are ended by their tasks."""
        for runner in self.runners.values():
            runner.stop()

    def _begin(
        self, settings: Mapping[str, TableSettings], tails: Mapping[str, Tail | None], keyring: Keyring
    ) -> None:
        at = self._clock.stamp()
        ended = tails
        new = {name: tail for name, tail in tails.items() if not self._writer.has_chain(name)}
        # A table that comes back goes on with the chain that the writer has.
        tails = {**tails, **start_chains(self._writer, self._journal, keyring, new, at)}
        for name, table in settings.items():
            runner = TableRunner(
                table, self._writer, self._clock, self._random, self.show, self._fail, self.stalls.look
            )
            self.runners[name] = runner
            before = ended[name] if tails[name] is None else None
            runner.start(tails[name], self._writer.chain(name), before)
            runner.hold(held=self._held)
            self.show(runner)
            self._retain_checkpoint(tails[name])
            self._retain_last(name)

    def _retain_last(self, table: str) -> None:
        """Have `last` published again for a broker that forgot it; what is in the queue still becomes it."""
        final = self._journal.last_final(table, self._source.cursor())
        if final is not None:
            self._publisher.retained.show_last(final)

    def _retain_checkpoint(self, tail: Tail | None) -> None:
        """Have the last checkpoint published again; one that is still in the queue is when its turn comes."""
        checkpoint = tail.checkpoint if tail is not None else None
        if checkpoint is not None and checkpoint.id <= self._source.cursor():
            self._publisher.retained.put(self._topics.checkpoint(checkpoint.table), checkpoint.envelope)

    # --- records -------------------------------------------------------------------------------------

    def written(self, entries: list[Entry], *, stopping: bool) -> None:
        """Records are durable: show and log what they say, and sum up what a closed table leaves."""
        for entry in entries:
            if entry.kind not in _READ:
                continue
            body = msgspec.json.decode(parse_envelope(entry.envelope).payload)["body"]
            if words := words_of(entry.kind, entry.table, entry.round, body):
                (_LOG.warning if words.warning else _LOG.info)(str(entry.kind), **words.fields)
            if entry.kind == Kind.RESULT and entry.table in self.runners:
                self.runners[entry.table].written(entry.kind, entry.round, body["outcome"], body["mode"])
            elif entry.kind == Kind.SESSION and not stopping and body["event"] == "closed":
                self._writer.checkpoint(entry.table, "table-closed", self._clock.stamp())

    def take_checkpoints(self, reason: str) -> None:
        """Have every chain summed up."""
        for name in self.runners:
            self._writer.checkpoint(name, reason, self._clock.stamp())

    # --- displays ------------------------------------------------------------------------------------

    def show(self, runner: TableRunner) -> None:
        """Tell displays of a change, soon; further changes until then are told with it."""
        if runner.name not in self._to_show:
            self._to_show.add(runner.name)
            asyncio.get_running_loop().call_later(SHOW_AFTER_S, self._show_now, runner.name)

    def show_all(self, *, now: bool = False) -> None:
        """Tell displays of all tables."""
        for runner in self.runners.values():
            if now:
                self._show_now(runner.name)
            else:
                self.show(runner)

    def _show_now(self, name: str) -> None:
        self._to_show.discard(name)
        runner = self.runners.get(name)
        if runner is None:
            return
        self._publisher.retained.put(self._topics.state(name), runner.state())
        for device in runner.settings.devices:
            self._publisher.retained.put(self._topics.device(name, device), runner.device(device))
