"""A whole machine under QEMU: booted, unplugged, replugged, cut off, and a shell in it."""

from __future__ import annotations

import asyncio
import base64
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.rig_test.image import Image
from tools.rig_test.qmp import Qmp, QmpError

BOOT_S = 240.0
"""Under emulation, on a busy machine."""
_LOOK_S = 0.15
_GONE_S = 10.0


class MachineError(Exception):
    """The machine did not do what was asked; the text says what it did."""


class Machine:
    """Boots in `async with`, and is gone afterwards. `adapters`: names of the serial lines out of it.

    The other end of the line NAME is the socket NAME.sock in `folder`.
    """

    def __init__(self, folder: Path, image: Image, adapters: tuple[str, ...]) -> None:
        self.folder = folder
        self._image = image
        self._adapters = adapters
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: Qmp | None = None
        self._agent: Qmp | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def socket(self, name: str) -> Path:
        """A socket of the machine."""
        return self.folder / f"{name}.sock"

    def power_on(self) -> None:
        """Switch on, with nothing plugged in."""
        command = ["nice", "-n", "5", "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"]
        command += ["-smp", "2", "-m", "1024", "-nodefaults", "-display", "none"]
        command += ["-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd), "-append"]
        command += ["root=/dev/vda rw console=ttyS0 quiet mitigations=off net.ifnames=0"]
        command += ["-drive", f"file={self._image.disk},if=virtio,format=raw,cache=none"]
        command += ["-serial", f"file:{self.folder / 'console.log'}"]
        command += ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]
        command += ["-qmp", f"unix:{self.socket('qmp')},server=on,wait=off"]
        command += ["-device", "virtio-serial-pci", *self._line("agent")]
        command += ["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"]
        command += ["-device", "qemu-xhci,id=xhci,p2=8,p3=8,addr=0x8"]
        for name in self._adapters:
            command += self._line(name)
        with (self.folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    async def boot(self) -> float:
        """Wait until there is a shell; the seconds it took. Raises `MachineError`."""
        began = time.monotonic()
        try:
            self._monitor = await self._connect()
            self._agent = await Qmp.agent(self.socket("agent"), answers_s=BOOT_S)
        except (OSError, TimeoutError, QmpError) as error:
            log = (self.folder / "qemu.log").read_text(errors="replace")[-500:]
            raise MachineError(f"it does not boot: {error!r} {log}") from error
        return time.monotonic() - began

    def cut(self) -> None:
        """Take the power away."""
        for line in (self._monitor, self._agent):
            if line is not None:
                line.close()
        self._monitor = self._agent = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def plug(self, adapter: str, *, line: str, serial: str, port: int) -> None:
        """Plug a USB serial adapter in; it leads to a line. Raises `MachineError`."""
        await self._do(
            "device_add", driver="usb-serial", bus="xhci.0", port=str(port), id=adapter, chardev=line,
            serial=serial, **{"always-plugged": True},
        )  # fmt: skip

    async def unplug(self, adapter: str) -> None:
        """Pull it out, and wait until it is gone. Raises `MachineError`."""
        await self._do("device_del", id=adapter)
        async with asyncio.timeout(_GONE_S):
            await self._running(self._monitor).event("DEVICE_DELETED", adapter)

    async def sh(self, command: str, *, check: bool = True, within_s: float = 120.0) -> str:
        """What a shell command prints. Raises `MachineError` where it fails, unless `check` is off."""
        agent = self._running(self._agent)
        environment = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "COLUMNS=200"]
        shell = {"path": "/bin/sh", "arg": ["-c", f"{{ {command}\n}} 2>&1"], "env": environment}
        try:
            async with asyncio.timeout(within_s):
                pid = (await agent.execute("guest-exec", **shell, **{"capture-output": True}))["pid"]
                while True:
                    status = await agent.execute("guest-exec-status", pid=pid)
                    if status["exited"]:
                        break
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError as error:
            raise MachineError(f"{command}: no end after {within_s:.0f} s") from error
        except QmpError as error:
            raise MachineError(f"{command}: {error}") from error
        said = base64.b64decode(status.get("out-data", "")).decode("utf-8", "replace")
        if check and status.get("exitcode", -1) != 0:
            raise MachineError(f"{command}: exit {status.get('exitcode')}\n{said[-3000:]}")
        return said

    async def write(self, path: str, text: str) -> None:
        """Make a file in it. Raises `MachineError`."""
        await self.sh(f"printf %s {shlex.quote(text)} >{path}")

    def _line(self, name: str) -> list[str]:
        return ["-chardev", f"socket,id={name},path={self.socket(name)},server=on,wait=off"]

    async def _connect(self) -> Qmp:
        path = self.socket("qmp")
        for _ in range(100):
            with suppress(OSError):
                return await Qmp.monitor(path)
            await asyncio.sleep(0.1)
        return await Qmp.monitor(path)

    async def _do(self, command: str, **arguments: object) -> None:
        try:
            await self._running(self._monitor).execute(command, **arguments)
        except QmpError as error:
            raise MachineError(str(error)) from error

    def _running(self, line: Qmp | None) -> Qmp:
        if line is None:
            raise MachineError("the machine is off")
        return line
