"""What became of a stream, and whether it is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from tools.fuzz.streams import Packet
from tools.fuzz.table import HearingTable

from dollyd.wire.record import Kind, ResultBody

Truth: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What really came in each game that came to its end, by the device's number: entries of the outcome."""


@dataclass
class Outcome:
    """What became of one stream, or of many."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add what became of others."""
        self.counts += other.counts
        self.failures += other.failures

    def count(self, table: HearingTable) -> None:
        """Count what the table wrote and what its devices' drivers refused."""
        for record in table.records:
            self.counts[str(record.kind)] += 1
        for protocol in table.engine.protocols.values():
            for why, number in protocol.counters.items():
                self.counts[f"heard, {why}"] += number

    def show(self, packets: Iterable[Packet]) -> None:
        """Show the stream beneath a failure."""
        if self.failures:
            self.failures += [f"{p.gap_ms:5} ms {p.device} {p.data!r}" for p in packets]


def results(table: HearingTable) -> Iterator[ResultBody]:
    """The results, in order."""
    for record in table.records:
        if record.kind is Kind.RESULT:
            yield msgspec.json.decode(record.body, type=ResultBody)


def game_of(body: ResultBody, device: str) -> str:
    """The game of this device that a result rests on, as the core names it; empty where there is none."""
    return next((witness.game for witness in body.evidence.witnesses if witness.device == device), "")


def number_of(game: str) -> str:
    """The device's own number of a game."""
    return game.rsplit("/", 1)[-1].split("#", maxsplit=1)[0]


def judge(table: HearingTable, device: str, truth: Truth, *, numbers_come_again: bool = False) -> Outcome:
    """Every result must be the truth of its game, and no game has two.

    `numbers_come_again`: the device may play another game under the same number.
    """
    outcome, given = Outcome(), Counter[str]()
    outcome.count(table)
    for body in results(table):
        game = game_of(body, device)
        number = number_of(game)
        given[game if numbers_come_again else number] += 1
        real = truth.get(number)
        if real is None or not real.items() <= body.outcome.items():
            outcome.failures.append(f"game {game}: {body.outcome} is not {real}")
    outcome.failures += [f"game {game}: {count} results" for game, count in given.items() if count > 1]
    return outcome
