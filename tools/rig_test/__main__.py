"""`make rig-test`: the package in a machine with a real kernel, one row a case. Exit 1 where one went wrong.

    python -m tools.rig_test [--short] [--only NAME ...] [--cuts N] [--seed N]

Needs root, QEMU (software emulation will do) and a network for the first run, which makes the Debian to
install into. A machine that can do none of this is told so, and the test is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random

from tools.rig_test import cases, usb_devices
from tools.rig_test.cuts import READY_S, PowerCuts
from tools.rig_test.house import House, house
from tools.rig_test.image import ROOT, build_package, debian
from tools.rig_test.machine import MachineError
from tools.system_test.debian import cache, quietly, why_not
from tools.system_test.report import Report

Case = Callable[[House], Awaitable[str]]


async def run(report: Report, name: str, case: Awaitable[str]) -> bool:
    """Await a case and tell of it; whether it was right."""
    began_s = time.monotonic()
    try:
        return report.add(name, await case, began_s, good=True)
    except (MachineError, AssertionError) as error:  # the latter: the listener's, of order and repeats
        return report.add(name, str(error), began_s, good=False)


def no_qemu() -> str:
    """Why there is no QEMU or nothing to boot in it, empty where all is there. Gets what is missing."""
    try:
        if shutil.which("qemu-system-x86_64") is None:
            quietly([str(ROOT / "tools/apt-install"), "qemu-system-x86"])
        debian()
    except RuntimeError as error:
        return f"no QEMU, or no Debian with a kernel for it: {error}"
    return ""


async def switch_on(home: House) -> str:
    """From the switch to every wheel ready."""
    shell_s = await home.boot()
    ready_s = await home.until("every wheel ready", home.ready, READY_S)
    return f"a shell after {shell_s:.0f} s, every wheel ready {ready_s:.0f} s later (software emulation)"


async def play(report: Report, folder: Path, told: argparse.Namespace) -> None:
    """Build, boot, and go through all cases; without a boot there is nothing to try."""
    began, rng = time.monotonic(), Random(told.seed)
    deb = build_package(folder)
    async with house(folder, deb, told.seed) as home:
        print(f"{deb.name} on a disk after {time.monotonic() - began:.0f} s; seed {told.seed}", flush=True)
        if not await run(report, "boot", switch_on(home)):
            return
        plan: dict[str, Case] = {
            "first results": cases.first_results,
            "other names": cases.other_names,
            "two equal adapters": cases.equal_adapters,
            "swapped": cases.swapped,
            "USB devices": usb_devices.read,
            "replugged": partial(cases.replugged, times=5 if told.short else 100, rng=rng),
            "power cuts": lambda home: PowerCuts(home, rng).run(told.cuts or (3 if told.short else 30)),
            "unplugged": partial(cases.unplugged, minutes=1 if told.short else 10),
        }
        for name, case in plan.items():
            if not told.only or name in told.only:
                await run(report, name, case(home))


def main() -> None:
    """Run the test."""
    parser = argparse.ArgumentParser(
        description="The package in a whole machine with USB, and power that fails."
    )
    parser.add_argument("--short", action="store_true", help="fewer repetitions: some minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these cases")
    parser.add_argument("--cuts", type=int, default=0, help="so many power cuts (30, short: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of games, moments and waits")
    told = parser.parse_args()
    reason = why_not() or no_qemu()
    if reason:
        print(f"*** The rig test is SKIPPED on this machine: {reason}. ***")
        return
    began, report = time.monotonic(), Report("The package in a whole machine")
    with tempfile.TemporaryDirectory(prefix="rig-test-", dir=cache()) as folder:
        asyncio.run(play(report, Path(folder), told))
    good = report.finish()
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
