"""Without any device the daemon rests: little CPU, few log lines, and quickly back (B1)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import psutil
from tests.support.broker import until
from tools.soak.strikes import Scene
from tools.truth import check

LONGEST_S = 60.0
GAMES_A_S = 1000
"""A soak of so many games is worth a second of this."""
SHORTEST_S = 10.0
"""Anything shorter measures nothing."""
CPU_MOST = 0.02
LINES_MOST = 3
BACK_S = 3.0
"""2 s to be heard (design section 10), and what a busy machine may add."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What the daemon took: part of a core, and log lines a device."""

    cpu: float
    lines: float


async def rest(scene: Scene, games: int) -> Rest | None:
    """Pull every cable for a while; None where the soak is too short for that. Raises `SoakError`."""
    seconds = min(LONGEST_S, games / GAMES_A_S)
    if seconds < SHORTEST_S:
        return None
    ports = [port for table in scene.tables for port in table.ports.values()]
    process, lines = psutil.Process(scene.node.pid), len(scene.node.log)
    for port in ports:
        port.unplug()
    await asyncio.sleep(1)  # what the loss itself takes
    began_s, used_s = time.monotonic(), sum(process.cpu_times()[:2])
    await asyncio.sleep(seconds)
    cpu = (sum(process.cpu_times()[:2]) - used_s) / (time.monotonic() - began_s)
    told = sum("event=device_" in line for line in scene.node.log[lines:]) / len(ports)
    check(cpu < CPU_MOST, f"unplugged: {cpu:.1%} CPU is little")
    check(told <= LINES_MOST, f"unplugged: {told:.1f} lines a device are few")
    for port in ports:
        port.plug()
    await until(lambda: all(table.heard for table in scene.tables), BACK_S)
    return Rest(cpu, told)
