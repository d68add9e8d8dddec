"""Helpers: a wheel in virtual time and its lines with their times."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dollyd.simulators.ss2 import COMPACT, Ss2Options, Ss2Wheel
from dollyd.wire.stamp import NS_PER_MS


@dataclass(frozen=True)
class Heard:
    ms: float
    text: str

    @property
    def state(self) -> str:
        return self.text[3] if self.text.startswith("*X;") else ""

    @property
    def fields(self) -> list[str]:
        return self.text.split(";")


def listen(wheel: Ss2Wheel, until_ms: float, from_ms: float = 0.0) -> list[Heard]:
    """Every line up to a time, each as it is sent."""
    heard = []
    while (due_ns := wheel.due_ns()) is not None and due_ns <= until_ms * NS_PER_MS:
        sent = wheel.advance(due_ns)
        heard += [Heard(due_ns / NS_PER_MS, line.decode("ascii")) for line in sent.split(b"\r\n") if line]
    return [one for one in heard if one.ms >= from_ms]


def wheel_with(*faults: str, options: Ss2Options = COMPACT, seed: int = 3) -> Ss2Wheel:
    wheel = Ss2Wheel(options, Random(seed), 0)
    for name in faults:
        wheel.faults.set(name)
    return wheel


def states(heard: list[Heard]) -> str:
    """The states in order, repetitions left out: `6123452`."""
    path = ""
    for one in heard:
        if one.state and not path.endswith(one.state):
            path += one.state
    return path


def ask(wheel: Ss2Wheel, command: str, at_ms: float) -> str:
    return (
        wheel.command(command.encode("ascii") + b"\r\n", int(at_ms * NS_PER_MS)).decode("ascii").strip("\r\n")
    )
