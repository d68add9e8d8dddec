"""The simulated random generators: raw bytes, OneRNG's commands, and every fault switch."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dollyd.simulators.faults import names
from dollyd.simulators.generators import ChaosKey, Generator, GeneratorOptions, OneRng, TrueRng
from dollyd.simulators.line import Line
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

OPTIONS = GeneratorOptions(bytes_per_s=10_000)


def stream(*faults: str, seconds: int = 5) -> bytes:
    device = TrueRng(OPTIONS, Random(3), 0)
    for name in faults:
        device.faults.set(name)
    return device.advance(seconds * NS_PER_S)


@pytest.mark.parametrize("kind", [TrueRng, ChaosKey])
def test_runs_as_soon_as_it_has_power(kind: type[Generator]) -> None:
    device = kind(OPTIONS, Random(3), 0)
    data = device.advance(NS_PER_S)
    assert len(data) == device.sent_bytes == 10_100
    device.power_off(NS_PER_S)
    assert device.due_ns() is None
    assert device.advance(2 * NS_PER_S) == b""
    device.power_on(2 * NS_PER_S)
    assert len(device.advance(2 * NS_PER_S)) == 100


def test_bytes_are_about_even_and_the_same_for_a_seed() -> None:
    data = stream()
    counts = Counter(data)
    expected = len(data) / 256
    assert sum((counts[value] - expected) ** 2 / expected for value in range(256)) < 350
    assert data == stream()


def test_a_binary_line_carries_every_byte_unchanged() -> None:
    line = Line(Random(1), binary=True)
    data = bytes(range(256)) + b"\r\n\r\n"
    line.send(data, 0)
    assert b"".join(line.advance(0)) == data


# --- OneRNG -----------------------------------------------------------------------------------------


def test_onerng_is_silent_until_cmd_o() -> None:
    device = OneRng(OPTIONS, Random(3), 0)
    assert device.advance(NS_PER_S) == b""
    assert device.command(b"cmd", NS_PER_S) == b""
    assert device.command(b"O\n", NS_PER_S) == b""
    assert len(device.advance(2 * NS_PER_S)) == 10_000
    device.command(b"cmdo\n", 2 * NS_PER_S)
    assert device.advance(3 * NS_PER_S) == b""


def test_onerng_source_4_is_silent() -> None:
    device = OneRng(OPTIONS, Random(3), 0)
    device.command(b"cmd4\ncmdO\n", 0)
    assert device.advance(NS_PER_S) == b""
    device.command(b"cmd0\n", NS_PER_S)
    assert device.advance(2 * NS_PER_S)


def test_onerng_says_who_it_is() -> None:
    device = OneRng(OPTIONS, Random(3), 0)
    assert device.command(b"cmdv\ncmdI\n", 0) == b"Version 3.0\r\nOneRNG-000053\r\n"
    assert device.command(b"cmdw\ncmd9\ncmdvv\nAT\n", 0) == b""


def test_onerng_is_stopped_after_a_loss_of_power() -> None:
    device = OneRng(OPTIONS, Random(3), 0)
    device.command(b"cmdO\n", 0)
    device.power_off(NS_PER_S)
    assert device.command(b"cmdv\n", NS_PER_S) == b""
    device.power_on(2 * NS_PER_S)
    assert device.advance(3 * NS_PER_S) == b""


# --- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("generator"))
def test_every_fault_changes_the_bytes_and_lasts_until_it_is_cleared(name: str) -> None:
    device = TrueRng(OPTIONS, Random(3), 0)
    device.faults.set(name)
    assert device.advance(NS_PER_S) != TrueRng(OPTIONS, Random(3), 0).advance(NS_PER_S)
    assert device.faults.on(name)
    device.faults.clear(name)
    assert len(device.advance(2 * NS_PER_S)) == 10_000


def test_stuck_at_one_value() -> None:
    assert len(set(stream("rng-stuck"))) == 1


def test_biased_to_three_quarters() -> None:
    data = stream("rng-biased")
    ones = sum(byte.bit_count() for byte in data)
    assert ones / (8 * len(data)) == pytest.approx(0.75, abs=0.01)


def test_repeats_a_block() -> None:
    data = stream("rng-repeats")
    assert data[:64] == data[100:164] == data[200:264]
    assert len(set(data[:64])) > 40


def test_stalls_and_short_reads() -> None:
    assert stream("rng-stalls") == b""
    device = TrueRng(OPTIONS, Random(3), 0)
    device.faults.set("rng-short-reads")
    assert [len(device.advance(ms * NS_PER_MS)) for ms in range(10, 60, 10)] == [6, 3, 3, 3, 3]
