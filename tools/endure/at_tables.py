"""What happens to a single device, or to one who reads the records."""

from __future__ import annotations

import asyncio
import os
import termios
from datetime import UTC, datetime

import psycopg
from tests.support.broker import until
from tools.endure.act import TOLD_S, Act, give_order


async def contradiction(act: Act) -> None:
    """The bare number is another one than that of the status lines."""
    act.table.spoil("bare-differs")
    await act.told("event=unresolved", f"table={act.table.name} ", "rule=witnesses-disagree")


async def other_device(act: Act) -> None:
    """A device with another serial number says hello; the technician has inspected it."""
    act.table.spoil("tlp-other-device")
    await act.told("what=device-changed", f"table={act.table.name} ")
    await asyncio.sleep(act.rng.uniform(0, 2))
    await give_order(act, act.table.name, datetime.now(UTC))
    await act.told("what=inspected ", f"table={act.table.name} ")


async def dead_line(act: Act) -> None:
    """Nothing comes any more, and the port stays open, until somebody opens it anew."""
    act.over()
    faults, port = act.table.wheel_line.faults, act.table.ports["wheel"]
    faults.set("line-silence")
    await until(lambda: not port.host_is_there(), TOLD_S)
    faults.clear("line-silence")


async def library_raises(act: Act) -> None:
    """What opens the port raises what nobody knows."""
    port = act.table.ports["wheel"]
    flag = act.scene.house.directory / "raise" / port.path.name
    flag.touch()
    port.unplug()
    port.plug()
    await act.told("event=driver_error", f"table={act.table.name} ")
    flag.unlink()


async def port_set_otherwise(act: Act) -> None:
    """Another program sets the port's speed."""
    port = os.open(act.table.ports["wheel"].node, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        settings = termios.tcgetattr(port)
        settings[4] = settings[5] = termios.B115200 if settings[4] != termios.B115200 else termios.B1200
        termios.tcsetattr(port, termios.TCSANOW, settings)
    finally:
        os.close(port)
    act.over()
    await act.told("what=device-lost", "why=settings-changed ", f"table={act.table.name} ")


async def second_broker(act: Act) -> None:
    """The line of one who reads fails, and he goes to a broker at which no node is."""
    line = act.scene.second_line
    line.refusing = True
    line.cut()
    await asyncio.sleep(act.rng.uniform(6, 10))
    line.refusing = False
    act.over()


async def read_only(act: Act) -> None:
    """The archive's server changes places with its standby."""
    archive, database = act.scene.archive, act.scene.database
    if archive is None:
        return
    before = len(archive.log)
    with psycopg.connect(database, autocommit=True) as server:
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        server.execute("SELECT pg_reload_conf()")
        try:
            await until(lambda: any("event=archive_waits" in line for line in archive.log[before:]), TOLD_S)
        finally:
            server.execute("SET default_transaction_read_only = off")
            server.execute("ALTER SYSTEM RESET default_transaction_read_only")
            server.execute("SELECT pg_reload_conf()")
    act.over()
    await until(lambda: any("event=archive_goes_on" in line for line in archive.log[before:]), TOLD_S)
