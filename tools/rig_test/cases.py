"""USB serial adapters at a real kernel: other names, equal ones, swapped ones, and pulled again and again.

Each case begins and ends with every wheel ready, and gives what it saw. It raises `MachineError` where it
sees what it must not.
"""

from __future__ import annotations

import asyncio
import re
import time
from random import Random

from tools.rig_test import judge
from tools.rig_test.house import ADAPTERS, TABLES, House, payload
from tools.rig_test.machine import MachineError

BACK_S = 2.0
"""From the plug to `ready`."""
READY_S = 30.0
SWAPPED_S = 20
SETTLE_S = 15
"""After a plug was pulled: its round comes to its end, and both are told of."""
CPU_MAX = 0.02
LINES_MAX = 3


def expect(true: object, seen: str) -> None:
    """Raise `MachineError` with what was seen instead."""
    if not true:
        raise MachineError(seen)


async def first_results(house: House) -> str:
    """The package under systemd reads three wheels, and a broker outside has their results."""
    took = await house.play(2)
    await house.verify()
    wrong = await against_the_wheels(house)
    expect(not wrong, "; ".join(wrong))
    names = await house.sh("cd /dev && ls ttyUSB*")
    user, state = (await house.sh("ps -o user= -C dollyd; systemctl show -P StatusText dollyd")).splitlines()
    return (
        f"{house.results()} results on the broker in {took:.0f} s, all as played; {names.split()}; "
        f"dollyd verify good; runs as {user}: {state}"
    )


async def other_names(house: House) -> str:
    """All adapters out, and in again in another order: the kernel's names change, the tables do not."""
    before = await nodes(house)
    for table in TABLES:
        await house.unplug(table)
    await house.until("all lost", lambda: not any(map(house.ready, TABLES)), READY_S)
    for table in reversed(TABLES):
        await house.plug(table)
    await house.until("all ready", house.ready, READY_S)
    after = await nodes(house)
    expect(before != after, f"the names did not change: {after}")
    await house.play(1)
    wrong = await against_the_wheels(house)
    expect(not wrong, "; ".join(wrong))
    return f"{before} became {after}; every table has its own wheel's results"


async def equal_adapters(house: House) -> str:
    """Two adapters with one serial number: the path tells them apart."""
    found = (await house.sh("find /dev/dolly -name '*EQUAL*'")).split()
    asked = "udevadm info -q property -n /dev/dolly/by-path/*usb-0:2:1.0"
    told = (await house.sh(f"{asked} | grep ^ID_SERIAL_SHORT")).strip()
    await house.play(1, ("e1", "e2"))
    wrong = await against_the_wheels(house)
    expect(not wrong and len(found) == 1, f"{found} {wrong}")
    return (
        f"two of {told} share one name by serial number; "
        "by their sockets each table has its own wheel's results"
    )


async def swapped(house: House) -> str:
    """The two equal adapters change places: no result of the wrong wheel, and it is said why."""
    for table in ("e1", "e2"):
        await house.unplug(table)
    await house.until("both lost", lambda: not house.ready("e1") and not house.ready("e2"), READY_S)
    results = house.results("e1") + house.results("e2")
    await house.plug("e1", line="e2")
    await house.plug("e2", line="e1")
    wrong = ["wrong-device"] * 2
    took = await house.until(
        "both have another wheel", lambda: [house.status("e1"), house.status("e2")] == wrong, READY_S
    )
    await asyncio.sleep(SWAPPED_S)
    stray = house.results("e1") + house.results("e2") - results
    states = [house.status("e1"), house.status("e2")]
    await house.unplug("e1", line="e2")
    await house.unplug("e2", line="e1")
    for table in ("e1", "e2"):
        await house.plug(table)
    back = await house.until("both ready", lambda: house.ready("e1", "e2"), READY_S)
    expect(not stray and states == wrong, f"{stray} results, {states}")
    await house.play(1)
    return (
        f"wrong-device after {took:.1f} s, {SWAPPED_S} s later still, no result; "
        f"put right: ready after {back:.1f} s"
    )


async def replugged(house: House, times: int, rng: Random) -> str:
    """Pulled and plugged at random moments of the game, while the others play on."""
    seconds = []
    for _ in range(times):
        await asyncio.sleep(rng.uniform(0.2, 3.0))
        await house.unplug("r1")
        await house.until("r1 lost", lambda: not house.ready("r1"), READY_S)
        await asyncio.sleep(rng.uniform(0.0, 1.5))
        await house.plug("r1")
        seconds.append(await house.until("r1 ready", lambda: house.ready("r1"), READY_S))
    await house.play(1)
    inside = await times_inside(house, times)
    wrong = await against_the_wheels(house)
    seen = (
        f"{times} times: ready at most {max(seconds):.2f} s after the plug, as heard outside (half within "
        f"{sorted(seconds)[times // 2]:.2f} s); by the machine's clock, from the kernel's first word of the "
        f"adapter to the record device-back, at most {max(inside, default=0):.2f} s ({len(inside)} measured)"
    )
    in_time = max(seconds) <= BACK_S or (len(inside) == times and max(inside) <= BACK_S)
    expect(in_time and not wrong, f"{seen}; {wrong}")
    return seen


async def unplugged(house: House, minutes: int) -> str:
    """Nothing is plugged in for a while: it costs nothing, and nothing is told over and over."""
    for table in TABLES:
        await house.unplug(table)
    await house.until("all lost", lambda: not any(map(house.ready, TABLES)), READY_S)
    await asyncio.sleep(SETTLE_S)
    since = (await house.sh("date '+%F %T'")).strip()
    before_s, began = await cpu_s(house), time.monotonic()
    await asyncio.sleep(60 * minutes)
    used_s, took_s = await cpu_s(house) - before_s, time.monotonic() - began
    log = (await house.sh(f"journalctl -u dollyd --since '{since}' -o cat --no-pager -q")).splitlines()
    slower = await slowness(house)
    for table in TABLES:
        await house.plug(table)
    back = await house.until("all ready", house.ready, READY_S)
    share = used_s / took_s
    seen = (
        f"{minutes} min with three adapters out: {100 * share:.1f} % of the emulated processor, which is "
        f"{slower:.0f} times slower than this one: {100 * share / slower:.2f} %; {len(log)} log lines; ready "
        f"{back:.1f} s after the plug"
    )
    expect(share / slower < CPU_MAX and len(log) <= LINES_MAX, f"{seen}: {log[:5]}")
    await house.play(1)
    return seen


# --- measuring -----------------------------------------------------------------------------------


async def nodes(house: House) -> dict[str, str]:
    """The kernel's name of each table's port, now."""
    await asyncio.sleep(1)  # udev makes the links one by one
    said = await house.sh(" && ".join(f"readlink -f /dev/dolly/{one.port}" for one in ADAPTERS))
    return dict(zip(TABLES, (line.rpartition("/")[2] for line in said.split()), strict=True))


async def against_the_wheels(house: House) -> list[str]:
    """What is wrong with the journal, seen from the wheels."""
    records = [payload(envelope) for envelope in await house.journal()]
    played = {table: list(wheel.played) for table, wheel in house.wheels.items()}
    return [*judge.doubled(records), *judge.untrue(records, played)]


async def times_inside(house: House, times: int) -> list[float]:
    """Seconds from the kernel's first word of the adapter of r1 to the record that it is back."""
    log = await house.sh("journalctl -k -b -o short-monotonic --no-pager -q | grep 'usb 1-1: new full-speed'")
    plugs = [float(found) for found in re.findall(r"^\[\s*([\d.]+)\]", log, re.MULTILINE)][-times:]
    backs = [
        one["time"]["monotonic_ns"] / 1e9
        for one in map(payload, await house.journal())
        if one["table"] == "r1" and one["kind"] == "incident" and one["body"]["what"] == "device-back"
    ]
    after = [(plug, next((back for back in backs if back > plug), None)) for plug in plugs]
    return [back - plug for plug, back in after if back is not None and back - plug < READY_S]


async def cpu_s(house: House) -> float:
    """Processor time of the service so far."""
    return float(await house.sh("systemctl show -P CPUUsageNSec dollyd")) / 1e9


_LOOP = "import time; t = time.process_time; s = t(); sum(i * i % 7 for i in range(300000)); print(t() - s)"


async def slowness(house: House) -> float:
    """How much slower the emulated processor is than ours, at Python."""
    inside = float(await house.sh(f"/opt/dollyd/bin/python -c '{_LOOP}'"))
    began = time.process_time()
    sum(i * i % 7 for i in range(300_000))
    return inside / (time.process_time() - began)
