"""Helpers: TLP/1 models in virtual time, and their sentences with their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from dollyd.simulators.ball_detector import BallDetector, BallDetectorOptions
from dollyd.simulators.console import Console, ConsoleOptions
from dollyd.simulators.dice_camera import DiceCamera, DiceCameraOptions
from dollyd.simulators.money_wheel import MoneyWheel, MoneyWheelOptions
from dollyd.simulators.tlp import Sentence, frame, parse
from dollyd.simulators.tlp_device import TlpDevice
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions, boule_bowl
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

MINUTE_NS = 60 * NS_PER_S


@dataclass(frozen=True)
class Heard:
    ms: float
    raw: bytes
    sentence: Sentence | None

    @property
    def message(self) -> str:
        return "" if self.sentence is None else self.sentence.command

    @property
    def seq(self) -> int:
        return -1 if self.sentence is None else self.sentence.seq

    @property
    def fields(self) -> tuple[str, ...]:
        return () if self.sentence is None else self.sentence.fields


def wheel(seed: int = 3) -> TlpWheel:
    return TlpWheel(WheelOptions(), Random(seed), 0)


def bowl(seed: int = 3) -> TlpWheel:
    return TlpWheel(boule_bowl(), Random(seed), 0)


def money(seed: int = 3) -> MoneyWheel:
    return MoneyWheel(MoneyWheelOptions(), Random(seed), 0)


def camera(seed: int = 3) -> DiceCamera:
    return DiceCamera(DiceCameraOptions(), Random(seed), 0)


def detector(seed: int = 3) -> BallDetector:
    return BallDetector(BallDetectorOptions(), Random(seed), 0)


def console(seed: int = 3) -> Console:
    script = [(at_s, "NMB", str(at_s)) for at_s in range(2, 20, 3)] + [(21, "BADGE", "B7")]
    return Console(ConsoleOptions(), Random(seed), 0, script)


DEVICES: dict[str, Callable[[int], TlpDevice]] = {
    "tlp-wheel": wheel,
    "boule": bowl,
    "ball-detector": detector,
    "money-wheel": money,
    "dice-camera": camera,
    "console": console,
}


def listen(device: TlpDevice, until_s: float, *, acknowledge: bool = True) -> list[Heard]:
    """Every sentence up to a time, as it is sent; a host that wants it acknowledges what is to be."""
    heard: list[Heard] = []
    while (due_ns := device.due_ns()) is not None and due_ns <= round(until_s * NS_PER_S):
        for line in device.advance(due_ns).split(b"\r\n"):
            if not line:
                continue
            one = Heard(due_ns / NS_PER_MS, line, parse(line))
            heard.append(one)
            if acknowledge and one.sentence is not None:
                device.command(acknowledgement(one.sentence), due_ns)
    return heard


def acknowledgement(sentence: Sentence) -> bytes:
    """What a host answers, or nothing."""
    if sentence.command == "RES":
        return frame("HC", "ACK", sentence.seq, sentence.fields[0])
    if (sentence.talker, sentence.command) == ("CN", "EVT"):
        return frame("HC", "ACK", sentence.seq, sentence.fields[1])
    return b""


def of(heard: list[Heard], message: str, *, game: str | None = None, event: str | None = None) -> list[Heard]:
    """Those of one message, one game, one kind of event; `game` is the first field of `RES`, `EVT`, `FLT`."""
    found = [one for one in heard if one.message == message]
    if game is not None:
        place = 1 if message == "STA" else 0
        found = [one for one in found if one.fields[place] == game]
    if event is not None:
        found = [one for one in found if one.fields[1] == event]
    return found


def path(heard: list[Heard]) -> str:
    """The states in order, repetitions left out: `6123452`."""
    states = ""
    for one in of(heard, "STA"):
        if not states.endswith(one.fields[0]):
            states += one.fields[0]
    return states


def states_of(heard: list[Heard], game: str) -> str:
    """The states under one game number."""
    return path(of(heard, "STA", game=game))
