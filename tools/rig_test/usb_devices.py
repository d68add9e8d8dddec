"""A dice camera and a ChaosKey as real USB devices, read by pyusb through the real libusb."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.rig_test import judge
from tools.rig_test.house import CONFIG, House, payload
from tools.rig_test.image import HOME
from tools.rig_test.machine import MachineError

from dollyd.simulators.demo.stage import write_profile

_RULE = 'SUBSYSTEM=="usb", ATTR{idVendor}=="1209", ATTR{idProduct}=="0001", GROUP="dialout", MODE="0660"\n'
"""What an operator writes for a device that the package does not know."""
_TABLES = """
[tables.d1]
game = "craps"
variant = "place"
rulebook = "qc-r3-95.17-craps"
profile = "qc-r3-95.17.toml"
stakes = { minimum = 100, maximum = 50000, currency = "CAD" }

[tables.d1.devices.camera]
driver = "tlp"
role = "dice"
port = "usb:1209:0001:serial=DC000002:in=81:out=02"
expect = { serial = "DC000002" }

[tables.b1]
game = "roulette"
variant = "B"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = { minimum = 100, maximum = 100000, currency = "EUR" }

[tables.b1.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "/dev/dolly/by-serial/0403-6001-W37-0002-if00"
expect = { pockets = "37" }

[tables.b1.devices.odds]
driver = "chaoskey"
role = "odds"
port = "usb:1d50:60c6:in=81"
"""

_PROFILE = "qc-r3-95.17"
_READY_S = 120.0
_RESULTS = 3
_GADGET = (
    "systemd-run --quiet --unit=rig-{name} --setenv=PYTHONPATH={home}/lib"
    " /opt/dollyd/bin/python -B {home}/lib/tools/rig_test/gadget.py {name}"
)


async def read(house: House) -> str:
    """Two more tables, whose devices are on USB itself; afterwards the machine is as before."""
    await house.machine.write("/etc/udev/rules.d/70-rig.rules", _RULE)
    await house.machine.write(f"{CONFIG}.more", _TABLES)
    await house.machine.write(f"/etc/dollyd/{_PROFILE}.toml", _hurried())
    await house.sh("mkdir -p /run/rig && udevadm control --reload && modprobe -a libcomposite usb_f_fs")
    await house.sh("modprobe dummy_hcd num=2")
    await house.sh(_GADGET.format(name="camera", home=HOME) + " /run/rig/camera.truth")
    await house.sh(_GADGET.format(name="chaoskey", home=HOME))
    await house.sh(f"cp -p {CONFIG} {CONFIG}.before && cat {CONFIG}.more >>{CONFIG}")
    await house.plug("b1")
    try:
        await house.sh("systemctl restart dollyd")
        seen = await _results(house)
    finally:
        await house.unplug("b1")
        await house.sh(f"mv {CONFIG}.before {CONFIG} && systemctl stop rig-camera rig-chaoskey")
        await house.sh("systemctl reset-failed dollyd; systemctl restart dollyd")
    await house.play(1)
    return seen


def _hurried() -> str:
    """The shipped profile, for a camera that throws faster than people do."""
    with tempfile.TemporaryDirectory() as folder:
        write_profile(Path(folder), _PROFILE, 1)
        return Path(folder, f"{_PROFILE}.toml").read_text("utf-8")


async def _results(house: House) -> str:
    took = await house.until(
        "camera and ChaosKey ready",
        lambda: house.status("d1", "camera") == house.status("b1", "odds") == "ready",
        _READY_S,
    )
    await house.play(_RESULTS, ("d1", "b1"))
    usbfs = (await house.sh("lsusb -t | grep -c Driver=usbfs")).strip()
    driver = (await house.sh("lsmod | grep -o ^chaoskey", check=False)).strip() or "no driver"
    maps = "/proc/$(systemctl show -P MainPID dollyd)/maps"
    mapped = (await house.sh(f"grep -o '/[^ ]*libusb[^ ]*' {maps} | sort -u")).strip()
    records = [payload(envelope) for envelope in await house.journal()]
    truth = [json.loads(line) for line in (await house.sh("cat /run/rig/camera.truth")).splitlines()]
    thrown = _as_thrown(records, truth)
    played = {"b1": list(house.wheels["b1"].played)}
    wrong = judge.untrue([one for one in records if one["table"] == "b1"], played)
    odds = [
        one["body"]["odds"]["table"] for one in records if one["table"] == "b1" and one["kind"] == "result"
    ]
    if wrong:
        raise MachineError("; ".join(wrong))
    return (
        f"1209:0001 and 1d50:60c6 on dummy_hcd, ready {took:.0f} s after the restart; {thrown} throws are "
        f"results, all as the dice lay; {len(odds)} results of variant B, odds tables drawn: {odds}; "
        f"read through {mapped}; {usbfs} devices held by usbfs, the kernel's own driver ({driver}) gave way"
    )


def _as_thrown(records: Sequence[dict[str, Any]], truth: Sequence[dict[str, Any]]) -> int:
    """How many results there are of throws. Raises `MachineError` where one is not what the dice showed."""
    results = [one for one in records if one["table"] == "d1" and one["kind"] == "result"]
    for one in results:
        counter = one["body"]["evidence"]["game_ref"].rsplit("/", 1)[1].split("#")[0]
        lay = [list(map(str, throw["faces"])) for throw in truth if throw["game"] == counter]
        if sorted(str(one["body"]["outcome"][die]) for die in ("die_1", "die_2")) not in [
            sorted(faces) for faces in lay
        ]:
            raise MachineError(f"round {one['round']} is {one['body']['outcome']}, but the dice showed {lay}")
    return len(results)
