"""Helpers: a conformance test in virtual time, and devices that break one clause."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from dollyd.simulators.conformance.findings import Verdict
from dollyd.simulators.conformance.host import Host
from dollyd.simulators.conformance.record import Record
from dollyd.simulators.conformance.report import Judged, judge
from dollyd.simulators.runner import Model
from dollyd.simulators.tlp import Sentence, frame, parse
from dollyd.wire.stamp import NS_PER_S

KEY = b"conformance"
LIMIT_NS = 400 * NS_PER_S


class Person(Protocol):
    """Whoever does what an interactive test asks for."""

    def __call__(self, step: str, now_ns: int) -> None: ...


def conduct(
    model: Model,
    talker: str,
    *,
    games: int = 3,
    on_opened: Callable[[int], None] = lambda _: None,
    person: Person | None = None,
    limit_ns: int = LIMIT_NS,
    start_ns: int = 0,
) -> Record:
    """The whole test of one device; `on_opened`: what opening the port does to it."""
    record = Record(talker, KEY)
    host = Host(record, Random(5), games=games, interactive=person is not None)
    now_ns = start_ns

    def exchange() -> None:
        while (data := model.advance(now_ns)) or (said := host.take()):
            if data:
                host.received(data, now_ns)
            elif answer := model.command(said, now_ns):
                host.received(answer, now_ns)

    host.opened(now_ns)
    exchange()
    while not host.done and now_ns < limit_ns:
        due = [time for time in (model.due_ns(), host.due_ns()) if time is not None]
        now_ns = max(now_ns, min([*due, now_ns + NS_PER_S]))
        exchange()
        host.tick(now_ns)
        if host.wants_reopen:
            on_opened(now_ns)
            host.opened(now_ns)
        exchange()
        if person is not None and host.step is not None:
            person(host.step.name, now_ns)
    return record


def broken(record: Record) -> set[str]:
    """Numbers of the clauses that failed."""
    return {one.clause.id for one in judge(record) if one.verdict is Verdict.FAIL}


def unseen(record: Record) -> set[str]:
    """Clauses that were not seen though nobody is needed for them."""
    return {
        f"{one.clause.id} {one.clause.text}"
        for one in judge(record)
        if one.verdict is Verdict.NOT_SEEN and not one.clause.needs
    }


def verdict_of(judged: list[Judged], clause: str) -> set[Verdict]:
    return {one.verdict for one in judged if one.clause.id == clause}


class Spoilt:
    """A sound model behind a man in the middle. `change` gives the lines sent in place of one line.

    `hear` changes the host's bytes before the model has them.
    """

    def __init__(
        self,
        model: Any,
        change: Callable[[Sentence, bytes], list[bytes]] = lambda _, raw: [raw],
        hear: Callable[[bytes], bytes] = lambda data: data,
    ) -> None:
        self.model = model
        self._change = change
        self._hear = hear

    def due_ns(self) -> int | None:
        due: int | None = self.model.due_ns()
        return due

    def advance(self, now_ns: int) -> bytes:
        return self._spoil(self.model.advance(now_ns))

    def command(self, data: bytes, now_ns: int) -> bytes:
        return self._spoil(self.model.command(self._hear(data), now_ns))

    def _spoil(self, data: bytes) -> bytes:
        out = b""
        for line in data.split(b"\r\n"):
            if line and (sentence := parse(line)) is not None:
                out += b"".join(self._change(sentence, line + b"\r\n"))
        return out


def told(sentence: Sentence, **changes: str) -> bytes:
    """The same sentence with other fields: `f3` is the fourth behind the number; or `command`, `talker`."""
    fields = list(sentence.fields)
    for name, value in changes.items():
        if name.startswith("f"):
            fields[int(name[1:])] = value
    talker = changes.get("talker", sentence.talker)
    return frame(talker, changes.get("command", sentence.command), sentence.seq, *fields)


def in_state(state: str, **changes: str) -> Callable[[Sentence, bytes], list[bytes]]:
    """Every heartbeat of this state with other fields."""

    def spoil(sentence: Sentence, raw: bytes) -> list[bytes]:
        meant = sentence.command == "STA" and sentence.fields[0] == state
        return [told(sentence, **changes)] if meant else [raw]

    return spoil
