"""Three tables on one machine, a broker outside of it, and somebody there who listens.

r1   SlingShot 2      adapter W37-0001 at socket 1, by its serial number
e1   TLP wheel        adapter EQUAL at socket 2, by the socket
e2   TLP wheel        adapter EQUAL at socket 3, by the socket
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.broker import Listener, Mosquitto, listening
from tests.support.daemon import NODE, PROFILE, SITE, Consumer
from tools.rig_test.image import HOME, HOST, KEYS, build
from tools.rig_test.lines import Wheel, slingshot, tlp_wheel
from tools.rig_test.machine import Machine, MachineError

from dollyd.wire.jws import parse_envelope

JOURNAL = "/var/lib/dollyd/journal.db"
CONFIG = "/etc/dollyd/dollyd.toml"
_HEAD = """
site = "{site}"
node = "{node}"
[journal]
path = "{journal}"
[signing]
key = "/run/credentials/dollyd.service/dollyd_signing.pem"
[mqtt]
brokers = ["{broker}"]
"""
_TABLE = """
[tables.{table}]
game = "roulette"
variant = "A"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = {{ minimum = 100, maximum = 100000, currency = "EUR" }}

[tables.{table}.devices.wheel]
driver = "{driver}"
role = "wheel"
port = "/dev/dolly/{port}"
expect = {{ {expect} }}
"""
_PATH = "pci-0000:00:08.0-usb-0:{socket}:1.0"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A USB serial adapter of a table, and the name under which the daemon knows its port."""

    table: str
    serial: str
    socket: int
    port: str
    driver: str
    expect: str


ADAPTERS = (
    Adapter("r1", "W37-0001", 1, "by-serial/0403-6001-W37-0001-if00", "cammegh-ss2", 'pockets = "37"'),
    Adapter("e1", "EQUAL", 2, f"by-path/{_PATH.format(socket=2)}", "tlp", 'serial = "SN000001"'),
    Adapter("e2", "EQUAL", 3, f"by-path/{_PATH.format(socket=3)}", "tlp", 'serial = "SN000002"'),
)
TABLES = tuple(adapter.table for adapter in ADAPTERS)
VARIANT_B = Adapter("b1", "W37-0002", 4, "by-serial/0403-6001-W37-0002-if00", "cammegh-ss2", 'pockets = "37"')
"""Of a table whose odds table comes from a generator on USB: only where that is plugged in too."""


def files(broker: str) -> dict[str, str]:
    """The configuration as it lies on the disk."""
    text = _HEAD.format(site=SITE, node=NODE, journal=JOURNAL, broker=broker)
    for one in ADAPTERS:
        text += _TABLE.format(table=one.table, driver=one.driver, port=one.port, expect=one.expect)
    return {CONFIG: text, "/etc/dollyd/profile.toml": PROFILE.format(hold_ms=0, unresolved_void_after_s=1)}


class House:
    """What the cases use."""

    def __init__(self, machine: Machine, listener: Listener, wheels: list[Wheel]) -> None:
        self.machine = machine
        self.sh = machine.sh
        self.listener = listener
        self.wheels = {wheel.table: wheel for wheel in wheels}
        self.consumer = Consumer(listener)
        self._journal: list[bytes] = []

    # --- the cables ----------------------------------------------------------------------------------

    async def plug(self, table: str, *, line: str = "") -> None:
        """Plug a table's adapter in; its line, or another one, is at its end."""
        adapter = next(one for one in (*ADAPTERS, VARIANT_B) if one.table == table)
        line = line or table
        await self.machine.plug(f"usb-{table}", line=line, serial=adapter.serial, port=adapter.socket)
        self.wheels[line].link.connected = True

    async def unplug(self, table: str, *, line: str = "") -> None:
        """Pull it out."""
        self.wheels[line or table].link.connected = False
        await self.machine.unplug(f"usb-{table}")

    async def plug_all(self) -> None:
        """As the machine stands at the tables."""
        for table in TABLES:
            await self.plug(table)

    def cut(self) -> None:
        """Take the machine's power away; the wheels play on."""
        for wheel in self.wheels.values():
            wheel.link.connected = False
        self.machine.cut()

    async def boot(self) -> float:
        """Switch on with everything plugged in; the seconds until there is a shell."""
        self.machine.power_on()
        seconds = await self.machine.boot()
        await self.plug_all()
        return seconds

    # --- what is heard of it -------------------------------------------------------------------------

    def status(self, table: str, device: str = "wheel") -> str:
        """State of a device as last published."""
        return self.consumer.status(device, table)

    def ready(self, *tables: str) -> bool:
        """Whether the wheels are, as last published."""
        return all(self.status(table) == "ready" for table in tables or TABLES)

    def results(self, table: str = "") -> int:
        """Results heard so far."""
        return len([one for one in self.consumer.of("result") if table in ("", one.table)])

    async def play(
        self, results: int = 1, tables: tuple[str, ...] = TABLES, within_s: float = 120.0
    ) -> float:
        """Wait for so many more results of each of these tables; the seconds it took."""
        wanted = {table: self.results(table) + results for table in tables}
        return await self.until(
            f"{results} more results of {', '.join(tables)}",
            lambda: all(self.results(table) >= count for table, count in wanted.items()),
            within_s,
        )

    async def until(self, what: str, true: Callable[[], object], within_s: float) -> float:
        """Wait for something; the seconds it took. Raises `MachineError` where it does not happen."""
        began = time.monotonic()
        while not true():
            if time.monotonic() > began + within_s:
                log = await self.sh("journalctl -u dollyd -o cat --no-pager -n 15", check=False)
                raise MachineError(f"not within {within_s:.0f} s: {what}\n{log}")
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def verify(self) -> None:
        """`dollyd verify` in the machine, with the node's key. Raises `MachineError` where it is not good."""
        await self.sh(f"dollyd verify {JOURNAL} --keys {KEYS}")

    async def journal(self) -> list[bytes]:
        """Every envelope of the journal, in the order of writing.

        Only new ones are fetched: that the old ones are still there is for `verify`, by their chain.
        """
        reader = f"/usr/bin/python3 -I -S {HOME}/lib/tools/rig_test/inside.py"
        text = await self.sh(f"{reader} {JOURNAL} {len(self._journal)}")
        self._journal += [line.encode() for line in text.splitlines()]
        return self._journal


@asynccontextmanager
async def house(folder: Path, deb: Path, seed: int) -> AsyncIterator[House]:
    """The house, with its machine switched off."""
    with Mosquitto("max_queued_messages 0") as broker:
        image = build(folder, deb, files(f"{HOST}:{broker.port}"))
        wheels = [
            slingshot("r1", folder, seed),
            slingshot("b1", folder, seed),
            tlp_wheel("e1", folder, seed, "SN000001"),
            tlp_wheel("e2", folder, seed, "SN000002"),
        ]
        lives = [asyncio.create_task(wheel.run()) for wheel in wheels]
        try:
            async with (
                listening(broker, f"dolly/v1/{SITE}/#") as listener,
                Machine(folder, image, tuple(wheel.table for wheel in wheels)) as machine,
            ):
                yield House(machine, listener, wheels)
        finally:
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)


def payload(envelope: bytes) -> dict[str, Any]:
    """What an envelope says; the signature is checked by `dollyd verify`."""
    return dict(json.loads(parse_envelope(envelope).payload))
