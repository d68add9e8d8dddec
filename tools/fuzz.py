"""Damaged wire traffic against the drivers: `python -m tools.fuzz [COUNT] [--seed N] [--only INDEX]`.

The invariant first: whatever happens on the line, a published number is the number that the wheel showed for
that game, an odds table is one that the box drew for that very request, and nothing raises.

A stream is a few well-made games, then damaged lightly or heavily: flipped bits, lost, doubled, swapped and
spliced lines, lost heads and tails, other line ends, stalls and bursts. It runs through the decoder, the
protocol and the whole table in virtual time. Every tenth stream is an odds box. A failure prints the stream
and the seed that make it again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import Pool
from random import Random, randrange

import msgspec
from tests.support.odds_lines import HELLO, PERIOD_MS, Host, answer, proof, sentence
from tests.support.wheel_lines import EUROPEAN, WHEEL, Game, device_setup, status, table_setup

from dollyd.daemon.core.events import OddsDrawn, TableOpened, VoidDeclared
from dollyd.daemon.core.record import Kind, ResultBody
from dollyd.daemon.core.round import Phase, phase
from dollyd.daemon.core.stamp import NS_PER_MS, Stamp
from dollyd.daemon.engine import Engine, Input, NewRecord, Op, house
from dollyd.drivers.framing import BadFrame, LineDecoder
from dollyd.drivers.protocols.cammegh_ss2 import Ss2Protocol

COUNT = 100_000
_CHUNK = 200
_ODDS_ONE_IN = 10
_LINE_ENDS = (b"\r\n", b"\r", b"\n", b"\n\r", b"\r\n\r\n", b"")
_LEVELS = ((1, 3), (1, 3), (1, 3), (4, 12), (4, 12), (15, 60))
"""How many mutations a stream gets, at least and at most; half of the streams are damaged lightly."""
_FAILURES_SHOWN = 5


@dataclass(frozen=True)
class Packet:
    """Bytes that come together, and the time since those before."""

    gap_ms: int
    data: bytes


@dataclass
class Outcome:
    """What became of one stream, or of many."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add what became of others."""
        self.counts += other.counts
        self.failures += other.failures


# --- well-made games ---------------------------------------------------------------------------------


def wheel_stream(rng: Random) -> tuple[list[Packet], dict[str, str]]:
    """A closed wheel that opens and plays a few games, and the number of each by its counter."""
    counter, before = rng.choice((1, 17, 128, 255)), rng.choice(EUROPEAN)
    bare, pause = rng.random() < 0.7, rng.random() < 0.3
    lines = [status(6, counter, before)] * 2 + [status(1, counter, before)]
    truth: dict[str, str] = {}
    for _ in range(rng.randint(2, 4)):
        lengths = (rng.randint(2, 5), rng.randint(2, 4), rng.randint(3, 7), rng.randint(2, 6))
        game = Game(counter, rng.choice(EUROPEAN), before, *lengths, bare, rng.randint(0, 1))
        said = game.lines()
        if rng.random() < 0.1:  # closed in mid-game, and the counter is used again
            lines += said[: rng.randint(1, sum(lengths[:3]))] + [status(6, counter, before)] * 2
        if rng.random() < 0.1:
            lines += [game.line(2, flags=8)] * rng.randint(1, 4)
        lines += said
        truth[f"{counter:03}"] = before = game.pocket
        if pause:
            lines += [status(1, counter, before)] * 2
        counter = counter % 256 + 1
    lines.append(status(2, counter, before))
    return [Packet(500 if line[0] == "*" else 0, line.encode() + b"\r\n") for line in lines], truth


# --- damage ------------------------------------------------------------------------------------------

Mutation = Callable[[list[Packet], int, Random], None]


def _change(packets: list[Packet], at: int, data: bytes) -> None:
    packets[at] = replace(packets[at], data=data)


def flip(packets: list[Packet], at: int, rng: Random) -> None:
    """A bit of noise."""
    data = bytearray(packets[at].data)
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        _change(packets, at, bytes(data))


def digit(packets: list[Packet], at: int, rng: Random) -> None:
    """One character becomes another digit: damage that the form of a line does not show."""
    data = bytearray(packets[at].data)
    digits = [place for place, byte in enumerate(data) if chr(byte).isdigit()]
    if digits:
        data[rng.choice(digits)] = rng.choice(b"0123456789")
        _change(packets, at, bytes(data))


def drop(packets: list[Packet], at: int, rng: Random) -> None:
    """Lines lost, as if the wheel had never sent them: no silence tells of it."""
    del packets[at : at + rng.choice((1, 1, 1, 2, 5))]


def drop_with_its_time(packets: list[Packet], at: int, _rng: Random) -> None:
    """A line lost, and the time that it took."""
    _change(packets, at, b"")


def insert(packets: list[Packet], at: int, rng: Random) -> None:
    """Noise, a stray number, a reply to another console."""
    junk = rng.choice(
        (rng.randbytes(rng.randint(1, 20)), rng.choice(EUROPEAN).rjust(2).encode() + b"\r\n", b"*u OK\r\n")
    )
    packets.insert(at, Packet(0, junk))


def double(packets: list[Packet], at: int, _rng: Random) -> None:
    """A line that comes twice."""
    packets.insert(at, replace(packets[at], gap_ms=0))


def swap(packets: list[Packet], at: int, rng: Random) -> None:
    """Lines out of order."""
    other = min(len(packets) - 1, at + rng.choice((1, 1, 2, 7)))
    packets[at], packets[other] = packets[other], packets[at]


def splice(packets: list[Packet], at: int, rng: Random) -> None:
    """A piece of another place of the stream: in its stead, or between."""
    start, length = rng.randrange(len(packets)), rng.randint(1, 12)
    packets[at : at + rng.choice((0, length))] = packets[start : start + length]


def lose_head(packets: list[Packet], at: int, rng: Random) -> None:
    """A line that begins in its middle."""
    _change(packets, at, packets[at].data[rng.randint(1, 12) :])


def lose_tail(packets: list[Packet], at: int, rng: Random) -> None:
    """A line that was cut short; the next one follows in it."""
    _change(packets, at, packets[at].data[: -rng.randint(1, 12)])


def end_otherwise(packets: list[Packet], at: int, rng: Random) -> None:
    """Another line end, or none."""
    _change(packets, at, packets[at].data.rstrip(b"\r\n") + rng.choice(_LINE_ENDS))


def stall(packets: list[Packet], at: int, rng: Random) -> None:
    """Silence, then the lines that waited in a burst."""
    gap_ms = rng.choice((600, 1900, 2500, 8000))
    packets[at] = replace(packets[at], gap_ms=gap_ms)
    for place in range(at + 1, min(len(packets), at + rng.randint(1, 5))):
        packets[place] = replace(packets[place], gap_ms=0)


MUTATIONS: tuple[Mutation, ...] = (
    flip, flip, flip, digit, digit, drop, drop, drop_with_its_time, insert, double, swap, splice, lose_head,
    lose_tail, end_otherwise, stall,
)  # fmt: skip


def damage(packets: list[Packet], rng: Random) -> None:
    """A few mutations, or many."""
    for _ in range(rng.randint(*rng.choice(_LEVELS))):
        if packets:
            rng.choice(MUTATIONS)(packets, rng.randrange(len(packets)), rng)


# --- the wheel ---------------------------------------------------------------------------------------

SETUP = table_setup()


class WheelTable:
    """A table with one wheel in virtual time. Unresolved rounds are closed at once, so that play goes on."""

    def __init__(self) -> None:
        self.protocol = Ss2Protocol(device_setup())
        self.engine = Engine(SETUP, {WHEEL: self.protocol})
        self.decoder = LineDecoder()
        self.records: list[NewRecord] = []
        self.at = Stamp(10**15, 10**15)
        self.feed(house(TableOpened("fuzz"), self.at))
        self.feed(Input(Op.OPEN, self.at, WHEEL))

    def hear(self, packet: Packet) -> None:
        """Bytes from the wheel."""
        self.wait(packet.gap_ms)
        for frame in self.decoder.feed(packet.data):
            op = Op.BAD_FRAME if isinstance(frame, BadFrame) else Op.FRAME
            self.feed(Input(op, self.at, WHEEL, frame.raw.decode("latin-1")))

    def wait(self, ms: int) -> None:
        """Time passes; the table is woken at its deadlines."""
        until_ns = self.at.mono_ns + ms * NS_PER_MS
        while (due_ns := self.engine.deadline_ns()) is not None and due_ns <= until_ns:
            self.at = Stamp(max(due_ns, self.at.mono_ns), max(due_ns, self.at.mono_ns))
            self.feed(Input(Op.TICK, self.at))
        self.at = Stamp(until_ns, until_ns)

    def feed(self, item: Input) -> None:
        """One input, and what people would do about a blocked table."""
        self.records += self.engine.feed(item).records
        if phase(self.engine.table) is Phase.BLOCKED:
            closed = VoidDeclared("fuzz", "dealer", "closed by the fuzz run")
            self.records += self.engine.feed(house(closed, item.at)).records


def wheel(rng: Random) -> Outcome:
    """One stream of a wheel."""
    packets, truth = wheel_stream(rng)
    damage(packets, rng)
    outcome, table, given = Outcome(), WheelTable(), Counter[str]()
    for packet in packets:
        table.hear(packet)
    table.wait(600_000)
    for record in table.records:
        outcome.counts[f"wheel: {record.kind}"] += 1
        if record.kind is Kind.RESULT:
            body = msgspec.json.decode(record.body, type=ResultBody)
            attempt = body.evidence.game_ref
            game = attempt.rsplit("/", 1)[-1].split("#")[0]
            given[attempt] += 1
            if body.outcome["pocket"] != truth.get(game):
                outcome.failures.append(f"game {game}: {body.outcome['pocket']} is not {truth.get(game)}")
            elif given[attempt] > 1:
                outcome.failures.append(f"game {attempt}: a second result")
    for why in ("bad", "not-a-line", "begun-again", "bare-misplaced"):
        outcome.counts[f"wheel: rejected, {why}"] += table.protocol.counters[why]
    if outcome.failures:
        outcome.failures += [f"{packet.gap_ms:5} ms {packet.data!r}" for packet in packets]
    return outcome


# --- the odds box ------------------------------------------------------------------------------------


def odds(rng: Random) -> Outcome:
    """One odds box: each draw has one true answer among damaged, foreign and repeated ones."""
    outcome, host, heard = Outcome(), Host().open_ready(), list[bytes]()
    truth: dict[int, str] = {}
    for number in range(1, rng.randint(3, 8)):
        nonce = f"{rng.getrandbits(64):016X}"
        host.ask(number, nonce)
        game, table, count = f"{number:04}", rng.choice("12"), f"{number:09}"
        truth[number] = f"{table} {number} {nonce} {proof(game, table, count, nonce)}"
        lines = [answer(game, table, number, nonce)] * rng.randint(0, 3) + rng.sample(
            heard, min(len(heard), 2)
        )
        other = "1" if table == "2" else "2"
        lines.append(answer(game, other, number, nonce, mac=proof(game, table, count, nonce)))
        lines.append(sentence("HEL", 1, *HELLO))
        rng.shuffle(lines)
        packets = [Packet(rng.choice((0, 100, PERIOD_MS, 1600)), line + b"\r\n") for line in lines]
        heard += lines
        damage(packets, rng)
        decoder = LineDecoder()
        for packet in packets:
            host.quiet(packet.gap_ms)
            host.hear(*(frame.raw for frame in decoder.feed(packet.data)))
    for drawn in host.of(OddsDrawn):
        outcome.counts["odds: drawn"] += 1
        said = f"{drawn.table} {drawn.counter} {drawn.nonce} {drawn.proof}"
        if said != truth[drawn.round]:
            outcome.failures += [
                f"round {drawn.round}: {said} is not {truth[drawn.round]}",
                *map(repr, heard),
            ]
    outcome.counts["odds: refused"] += len(host.causes)
    outcome.counts["odds: rejected, bad"] += host.protocol.counters["bad"]
    return outcome


# --- many of them ------------------------------------------------------------------------------------


def one(seed: int, index: int) -> Outcome:
    """Stream `index` of a run; the same seed makes the same stream."""
    kind, play = ("odds", odds) if index % _ODDS_ONE_IN == _ODDS_ONE_IN - 1 else ("wheel", wheel)
    try:
        outcome = play(Random(f"{seed}/{index}"))
    except Exception:  # noqa: BLE001 - whatever is raised is a finding, and the run goes on
        outcome = Outcome(failures=[traceback.format_exc()])
    outcome.counts[f"{kind}: streams"] += 1
    if outcome.failures:
        outcome.failures[0] = f"seed {seed}, stream {index}: {outcome.failures[0]}"
        outcome.failures = ["\n".join(outcome.failures)]
    return outcome


def some(seed: int, indices: range) -> Outcome:
    """A chunk of a run, in one process."""
    total = Outcome()
    for index in indices:
        total.add(one(seed, index))
    return total


def run(count: int, seed: int) -> Iterator[Outcome]:
    """A whole run over all cores."""
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    with Pool(os.cpu_count()) as pool:
        yield from pool.imap_unordered(partial(some, seed), chunks)


def main() -> int:
    """The command; the exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Damaged wire traffic against the drivers.")
    parser.add_argument("count", nargs="?", type=int, default=COUNT, help="number of streams")
    parser.add_argument("--seed", type=int, default=randrange(2**32), help="makes a run again")
    parser.add_argument("--only", type=int, metavar="INDEX", help="one stream of that run")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    total, began = Outcome(), time.monotonic()
    if arguments.only is None:
        for outcome in run(arguments.count, arguments.seed):
            total.add(outcome)
    else:
        total.add(one(arguments.seed, arguments.only))
    for name, number in sorted(total.counts.items()):
        print(f"{number:>10,}  {name}")
    print(f"{len(total.failures):>10,}  failures in {time.monotonic() - began:.0f} s")
    for failure in total.failures[:_FAILURES_SHOWN]:
        print(f"\n{failure}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
