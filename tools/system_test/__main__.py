"""`make system-test`: what the package does on a machine, one row a case. Exit 1 where one went wrong.

    python -m tools.system_test [--only NAME ...]

Needs root and a network for the first run, which makes the Debian to install into. A machine that allows no
containers, or cannot get that Debian, is told so, and the test is skipped.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.build_deb import ROOT, SITE_PACKAGES, seal, version_of
from tools.system_test.cases import (
    CASES,
    Case,
    MachineError,
    Unexpected,
    purge,
    remove,
    upgrade,
    whole_journal,
)
from tools.system_test.debian import base, cache, copy, quietly, why_not
from tools.system_test.machine import Machine
from tools.system_test.report import Report
from tools.system_test.rig import CONFIG, HOME, KEY, Rig

MINUTES_MAX = 10.0


def run(report: Report, name: str, case: Callable[[], str]) -> bool:
    """Run a case and tell of it; whether it was right."""
    began_s = time.monotonic()
    try:
        return report.add(name, case(), began_s, good=True)
    except (Unexpected, MachineError) as error:
        return report.add(name, str(error), began_s, good=False)


def build(folder: Path) -> list[Path]:
    """The package of this tree, and the same program as its next version."""
    command = [sys.executable, "-m", "tools.build_deb", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    deb = Path(done.stdout.split()[-1])
    later, version = folder / "later", version_of(ROOT)
    quietly(["dpkg-deb", "--raw-extract", str(deb), str(later)])
    for name, old in (
        (f"{SITE_PACKAGES}/dollyd/__init__.py", f'__version__ = "{version}'),
        ("DEBIAN/control", f"Version: {version}"),
    ):
        file = later / name
        file.write_text(file.read_text("utf-8").replace(old, f"{old}.post1", 1))
    seal(later)
    (later / "DEBIAN/md5sums").unlink()
    next_deb = folder / deb.name.replace(version, f"{version}.post1", 1)
    quietly(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(later), str(next_deb)])
    shutil.rmtree(later)
    return [deb, next_deb]


def first_result(rig: Rig, deb: Path) -> str:
    """A technician's steps, from nothing but Debian to the first signed result; all of it offline."""
    began = time.monotonic()
    said = rig.sh(
        f"apt-get install --yes --no-install-recommends {HOME}/{deb.name} mosquitto mosquitto-clients 2>&1"
    )
    apt_s = time.monotonic() - began
    forgers = rig.sh("dpkg -L dollyd | grep -i simulator", check=False)
    if forgers:
        raise Unexpected(f"simulators in the package: {forgers}")
    rig.sh(f"dollyd keys new {KEY} && dollyd self-check && dollyd discover")
    rig.configure()
    rig.sh("systemctl enable --now rig-listener rig-wheel 2>&1")
    rig.sh(f"dollyd check --config {CONFIG}")
    rig.sh("systemctl start dollyd")
    rig.play(1)
    minutes = (time.monotonic() - began) / 60
    packages = said.count("\nSetting up ")
    if minutes > MINUTES_MAX:
        raise Unexpected(f"{minutes:.1f} minutes")
    return f"{minutes:.1f} minutes from apt to the first signed result; {packages} packages in {apt_s:.0f} s"


def play(report: Report, machine: Machine, folder: Path, only: list[str]) -> None:
    """Build, install, and go through all cases; without an installation there is nothing to try."""
    began = time.monotonic()
    now, later = build(folder)
    print(
        f"built {now.name} ({now.stat().st_size >> 20} MB) and {later.name}; {time.monotonic() - began:.0f} s"
    )
    rig = Rig(machine)
    rig.bring([now, later])
    if not run(report, "install", partial(first_result, rig, now)):
        return
    life: dict[str, Case] = {
        "upgrade in play": partial(upgrade, deb=later.name),
        "the whole journal": whole_journal,
        "remove": remove,
        "purge": purge,
    }
    for name, case in {**CASES, **life}.items():
        if not only or name in only:
            run(report, name, partial(case, rig))


def main() -> None:
    """Run the test."""
    parser = argparse.ArgumentParser(description="The package in a real systemd, from installation to purge.")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these cases")
    only = parser.parse_args().only
    began, report = time.monotonic(), Report("The package in a real systemd")
    reason = why_not()
    if reason:
        print(f"*** The system test is SKIPPED on this machine: {reason}. ***")
        return
    with tempfile.TemporaryDirectory(prefix="system-test-", dir=cache()) as folder:
        copy(base(), Path(folder) / "root")
        machine = Machine(Path(folder) / "root")
        try:
            if run(report, "boot", lambda: f"a bare Debian is up after {machine.boot():.1f} s"):
                play(report, machine, Path(folder), only)
        finally:
            machine.cut()
    good = report.finish()
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
