"""Well-made streams from the simulators, in virtual time, with their truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, TypeAlias

from tools.fuzz.streams import Packet, damage

from dollyd.simulators.runner import Model
from dollyd.simulators.tlp import frame, parse
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

POOL = 64
"""Well-made streams of a kind; each run has its own."""
_LONGEST_NS = 300 * NS_PER_S
_ACKNOWLEDGED = 0.7


@dataclass(frozen=True, slots=True)
class Recording:
    """A stream as it left its devices, and what really happened meanwhile, as its kind tells it."""

    packets: tuple[Packet, ...]
    truth: Any


Make: TypeAlias = Callable[[Random], Recording]


@cache
def _recorded(make: Make, seed: int, number: int) -> Recording:
    return make(Random(f"{seed}/{make.__module__}/{make.__name__}/{number}"))


def recorded(make: Make, seed: int, rng: Random) -> Recording:
    """One of the pool."""
    return _recorded(make, seed, rng.randrange(POOL))


def damaged(recording: Recording, rng: Random) -> list[Packet]:
    """The stream as it arrives."""
    packets = list(recording.packets)
    damage(packets, rng)
    return packets


def record(models: Mapping[str, Model], rng: Random, enough: Callable[[], bool]) -> tuple[Packet, ...]:
    """What the devices say until there is enough, and a little longer, to a host that keeps the protocol."""
    packets: list[Packet] = []
    now_ns, heard_ms = 0, 0
    end_ns = _LONGEST_NS
    said = {name: model.command(frame("HC", "QRY", 0), 0) for name, model in models.items()}
    while now_ns <= end_ns:
        if end_ns == _LONGEST_NS and enough():
            end_ns = now_ns + NS_PER_S
        for name, model in models.items():
            for line in (said.pop(name, b"") + model.advance(now_ns)).splitlines(keepends=True):
                now_ms = now_ns // NS_PER_MS
                packets.append(Packet(now_ms - heard_ms, line, name))
                heard_ms = now_ms
                said[name] = said.get(name, b"") + _acknowledge(model, line, rng, now_ns)
        now_ns = min(
            (due for model in models.values() if (due := model.due_ns()) is not None), default=end_ns + 1
        )
    return tuple(packets)


def _acknowledge(model: Model, line: bytes, rng: Random, now_ns: int) -> bytes:
    sentence = parse(line.rstrip())
    if sentence is None or rng.random() > _ACKNOWLEDGED:
        return b""
    if sentence.command == "RES":
        key = sentence.fields[0]
    elif sentence.talker == "CN" and sentence.command == "EVT":
        key = sentence.fields[1]
    else:
        return b""
    return model.command(frame("HC", "ACK", sentence.seq, key), now_ns)
