"""Runs in the machine, as root: a simulated device as a USB device, by FunctionFS on a loop-back controller.

    gadget.py camera TRUTH
    gadget.py chaoskey

    model --link--> ep1 (IN) | kernel: FunctionFS, dummy_hcd, usbfs | libusb <--pyusb-- dollyd
          <-------- ep2 (OUT)

Needs the modules libcomposite, usb_f_fs and dummy_hcd, and configfs. See Documentation/usb/functionfs.rst of
the kernel.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from dollyd.daemon.host.clock import SystemClock
from dollyd.simulators.dice_camera import DiceCamera, DiceCameraOptions
from dollyd.simulators.line import Line
from dollyd.simulators.runner import Device

GADGETS = Path("/sys/kernel/config/usb_gadget")
_DESCRIPTORS, _STRINGS = 3, 2
"""Magic numbers of what is written to ep0."""
_FULL_SPEED, _HIGH_SPEED = 1, 2
_VENDOR_CLASS, _BULK = 0xFF, 2
_LANGUAGE = 0x0409
_AGAIN_S = 0.05
_STREAM_BYTES = 4096
_PACKETS_KEPT = 256
"""What the device keeps for a host that does not ask; older ones are lost."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the device says of itself. `controller`: the one that it is plugged into."""

    vid: int
    pid: int
    serial: str
    product: str
    controller: str
    listens: bool


CAMERA = Identity(0x1209, 0x0001, "DC000002", "Dice camera", "dummy_udc.0", listens=True)
CHAOSKEY = Identity(0x1D50, 0x60C6, "00A1", "ChaosKey-hw-1.0-sw-1.9", "dummy_udc.1", listens=False)


class GadgetLink:
    """The two endpoints of the camera. The kernel's calls block, so that each has a thread of its own."""

    def __init__(self, mount: Path) -> None:
        self.on_data: Callable[[bytes], None] = lambda _: None
        self._loop = asyncio.get_running_loop()
        self._packets: deque[bytes] = deque(maxlen=_PACKETS_KEPT)
        self._news = threading.Condition()
        threading.Thread(target=self._send, args=(mount / "ep1",), daemon=True).start()
        threading.Thread(target=self._hear, args=(mount / "ep2",), daemon=True).start()

    def write(self, data: bytes) -> None:
        """To the host, when it asks."""
        with self._news:
            self._packets.append(data)
            self._news.notify()

    def _heard(self, data: bytes) -> None:
        self.on_data(data)

    def _send(self, endpoint: Path) -> None:
        with endpoint.open("wb", buffering=0) as ep:
            while True:
                with self._news:
                    self._news.wait_for(lambda: self._packets)
                    data = self._packets.popleft()
                try:
                    ep.write(data)
                except OSError:  # not configured yet, or reset: the host asks again
                    time.sleep(_AGAIN_S)

    def _hear(self, endpoint: Path) -> None:
        with endpoint.open("rb", buffering=0) as ep:
            while True:
                try:
                    data = ep.read(512)
                except OSError:
                    time.sleep(_AGAIN_S)
                    continue
                if data:
                    self._loop.call_soon_threadsafe(self._heard, data)


def descriptors(*, listens: bool) -> bytes:
    """One vendor interface with a bulk endpoint each way, for both speeds; and the two calls' magic."""
    endpoints = (0x81, 0x02) if listens else (0x81,)

    def of_speed(packet_bytes: int) -> bytes:
        told = struct.pack("<9B", 9, 4, 0, 0, len(endpoints), _VENDOR_CLASS, 0, 0, 1)
        for address in endpoints:
            told += struct.pack("<4BHB", 7, 5, address, _BULK, packet_bytes, 0)
        return told

    counts = struct.pack("<2I", 1 + len(endpoints), 1 + len(endpoints))
    body = counts + of_speed(64) + of_speed(512)
    return struct.pack("<3I", _DESCRIPTORS, 12 + len(body), _FULL_SPEED | _HIGH_SPEED) + body


def strings(name: str) -> bytes:
    """The interface's name."""
    body = struct.pack("<H", _LANGUAGE) + name.encode() + b"\0"
    return struct.pack("<4I", _STRINGS, 16 + len(body), 1, 1) + body


def describe(name: str, identity: Identity) -> tuple[Path, Path]:
    """Make the gadget, with a function that waits for its endpoints; gives gadget and mount point."""
    gadget, mount = GADGETS / name, Path("/run/rig") / name
    for folder in ("strings/0x409", "configs/c.1", f"functions/ffs.{name}"):
        (gadget / folder).mkdir(parents=True, exist_ok=True)
    for file, text in {
        "idVendor": f"{identity.vid:#06x}",
        "idProduct": f"{identity.pid:#06x}",
        "strings/0x409/serialnumber": identity.serial,
        "strings/0x409/product": identity.product,
        "strings/0x409/manufacturer": "rig",
    }.items():
        (gadget / file).write_text(text)
    (gadget / "configs/c.1" / f"ffs.{name}").symlink_to(gadget / f"functions/ffs.{name}")
    mount.mkdir(parents=True, exist_ok=True)
    subprocess.run(["/bin/mount", "-t", "functionfs", name, str(mount)], check=True)
    return gadget, mount


def plug_in(name: str, identity: Identity) -> Path:
    """Make it and plug it in; gives the folder of its endpoints. It stays as long as this process lives."""
    gadget, mount = describe(name, identity)
    ep0 = os.open(mount / "ep0", os.O_RDWR)
    os.write(ep0, descriptors(listens=identity.listens))
    os.write(ep0, strings(identity.product))
    (gadget / "UDC").write_text(identity.controller)
    return mount


async def camera(truth: Path) -> None:
    """Throw after throw; `truth` gets each as it really was, JSON, one a line."""
    link = GadgetLink(plug_in("camera", CAMERA))
    clock, rng = SystemClock(), Random("camera")
    options = DiceCameraOptions(period_ms=100, serial=CAMERA.serial)
    model = DiceCamera(options, rng, clock.stamp().mono_ns)
    device = Device(model, link, clock, Line(Random("line")))
    with truth.open("w", buffering=1) as told:
        count = 0

        def tell() -> None:
            nonlocal count
            for throw in model.played[count:]:
                print(json.dumps(asdict(throw)), file=told)
            count = len(model.played)

        device.observe = tell
        await device.run()


def chaoskey() -> None:
    """Random bytes without end, as fast as the host asks."""
    endpoint = plug_in("chaoskey", CHAOSKEY) / "ep1"
    with endpoint.open("wb", buffering=0) as ep:
        while True:
            try:
                ep.write(os.urandom(_STREAM_BYTES))
            except OSError:  # as above
                time.sleep(_AGAIN_S)


if __name__ == "__main__":
    if sys.argv[1] == "camera":
        asyncio.run(camera(Path(sys.argv[2])))
    else:
        chaoskey()
