"""SlingShot 2: a number is the one that the wheel showed for that game.

Two lines of a wheel without bare number that are damaged alike are the known limit of two witnesses: how
often that makes an untrue number is counted, and three lines must bear it.
"""

from __future__ import annotations

from random import Random

from tests.support.wheel_lines import EUROPEAN, WHEEL, Game, device_setup, status, table_setup
from tools.fuzz.judge import Outcome, Truth, judge
from tools.fuzz.streams import Packet, damage
from tools.fuzz.table import HearingTable

from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol

_SETUP = table_setup()


def stream(rng: Random) -> tuple[list[Packet], Truth]:
    """A closed wheel that opens and plays a few games, and the number of each by its counter."""
    counter, before = rng.choice((1, 17, 128, 255)), rng.choice(EUROPEAN)
    bare, pause = rng.random() < 0.7, rng.random() < 0.3
    lines = [status(6, counter, before)] * 2 + [status(1, counter, before)]
    truth: dict[str, dict[str, str]] = {}
    for _ in range(rng.randint(2, 4)):
        lengths = (rng.randint(2, 5), rng.randint(2, 4), rng.randint(3, 7), rng.randint(2, 6))
        game = Game(counter, rng.choice(EUROPEAN), before, *lengths, bare, rng.randint(0, 1))
        said = game.lines()
        if rng.random() < 0.1:  # closed in mid-game, and the counter is used again
            lines += said[: rng.randint(1, sum(lengths[:3]))] + [status(6, counter, before)] * 2
        if rng.random() < 0.1:
            lines += [game.line(2, flags=8)] * rng.randint(1, 4)
        lines += said
        before = game.pocket
        truth[f"{counter:03}"] = {"pocket": before}
        if pause:
            lines += [status(1, counter, before)] * 2
        counter = counter % 256 + 1
    lines.append(status(2, counter, before))
    return [Packet(500 if line[0] == "*" else 0, line.encode() + b"\r\n") for line in lines], truth


def play(_seed: int, rng: Random) -> Outcome:
    """One stream; the lines have no checksum, and the rules of evidence alone stand against damage."""
    packets, truth = stream(rng)
    damage(packets, rng)
    table = HearingTable(_SETUP, {WHEEL: Ss2Protocol(device_setup())})
    table.play(packets)
    outcome = judge(table, WHEEL, truth, numbers_come_again=True)
    outcome.show(packets)
    return outcome


def play_twice(_seed: int, rng: Random) -> Outcome:
    """One game without bare number; one bit is changed in each of two status lines that follow each other."""
    game = Game(17, rng.choice(EUROPEAN), rng.choice(EUROPEAN), bare=False)
    lines = [line.encode() for line in game.lines()]
    at = rng.randrange(len(lines) - 1)
    one, other = _bit(lines[at], rng), _bit(lines[at + 1], rng)
    truth = {f"{game.counter:03}": {"pocket": game.pocket}}
    total = Outcome()
    for told, bits, options in (
        ("untrue: two lines, a bit of each by chance", (one, other), {}),
        ("untrue: two lines, the same bit of both", (one, one), {}),
        ("", (one, one), {"three_lines": True}),
    ):
        damaged = [
            *lines[:at],
            _changed(lines[at], bits[0]),
            _changed(lines[at + 1], bits[1]),
            *lines[at + 2 :],
        ]
        packets = [Packet(500, line + b"\r\n") for line in (status(6, 16, game.before).encode(), *damaged)]
        table = HearingTable(_SETUP, {WHEEL: Ss2Protocol(device_setup(options=options))})
        table.play(packets)
        outcome = judge(table, WHEEL, truth)
        if told:
            outcome.counts[told] = len(outcome.failures)
            outcome.failures = []
        outcome.show(packets)
        total.add(outcome)
    return total


def _bit(line: bytes, rng: Random) -> tuple[int, int]:
    """A place in a line, and a mask of one bit."""
    return rng.randrange(len(line)), 1 << rng.randrange(8)


def _changed(line: bytes, bit: tuple[int, int]) -> bytes:
    data = bytearray(line)
    data[min(bit[0], len(data) - 1)] ^= bit[1]
    return bytes(data)
