"""Dealer console: nothing that was not pressed, nothing twice, and never another person's name."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from tests.support.tables import game_setup
from tests.support.tlp_lines import setup_of
from tools.fuzz.judge import Outcome
from tools.fuzz.recording import Recording, damaged, record, recorded
from tools.fuzz.table import HearingTable
from tools.fuzz.tlp import prepare

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    DeviceReady,
    DeviceTrouble,
    Permitted,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.drivers.protocols.tlp.console import ConsoleProtocol
from dollyd.simulators.console import KEYS, Console, ConsoleOptions

FAULTS = (
    "tlp-bad-crc", "tlp-ack-lost", "tlp-heartbeat-gap", "console-other-key",
)  # fmt: skip
"""No restart: a key that came from before it, behind the new hello, could not be told from a new one."""
_MEANT: dict[type, str] = {
    TableOpened: "OPEN",
    TableClosed: "CLOSE",
    BetsClosed: "NMB",
    VoidDeclared: "VOID",
    Confirmed: "CONFIRM",
    Permitted: "PERMIT",
    ThrowRejected: "REJECT",
}
_WITHOUT_ROUND = frozenset({"OPEN", "CLOSE"})
_PRESSES = (4, 10)
_BADGES = ("B17", "B18", "")
_SETUP = game_setup("tuplanoppa")


def shift(rng: Random) -> Recording:
    """Some keys and badges; for each key with its round, the badges that pressed it, once a press."""
    script, at_s, badge = list[tuple[float, str, str]](), 3.0, ""
    truth: dict[tuple[str, str], list[str]] = {}
    for number in range(1, rng.randint(*_PRESSES)):
        at_s += rng.choice((0.1, 1.0, 4.0, 12.0))
        if rng.random() < 0.3:
            badge = rng.choice(_BADGES)
            script.append((at_s, "BADGE", badge))
        else:
            key = rng.choice(KEYS)
            round_shown = "" if key in _WITHOUT_ROUND else str(number)
            script.append((at_s, key, round_shown))
            truth.setdefault((key, round_shown), []).append(badge)
    model = Console(ConsoleOptions(), rng, 0, script)
    prepare(model, rng, FAULTS)
    return Recording(record({"console": model}, rng, lambda: len(model.played) >= len(script)), truth)


def play(seed: int, rng: Random) -> Outcome:
    """One stream."""
    recording = recorded(shift, seed, rng)
    packets = damaged(recording, rng)
    table = HearingTable(_SETUP, {"console": ConsoleProtocol(setup_of("CN", "tuplanoppa"))})
    table.play(packets)
    outcome, told = Outcome(), Counter[tuple[str, str]]()
    outcome.count(table)
    for event in table.events:
        if isinstance(event, DeviceReady | DeviceTrouble):
            continue
        heard: Any = event
        key = _MEANT[type(heard)]
        pressed = (key, "" if key in _WITHOUT_ROUND else str(heard.round))
        told[pressed] += 1
        badges = recording.truth.get(pressed, [])
        if told[pressed] > len(badges):
            outcome.failures.append(f"{pressed}: pressed {len(badges)} times, told {told[pressed]} times")
        elif heard.by not in {f"console:{badge or 'console'}" for badge in (*badges, "")}:
            outcome.failures.append(f"{pressed}: by {badges}, not by {heard.by}")
        outcome.counts[f"{key} told"] += 1
    outcome.show(packets)
    return outcome
