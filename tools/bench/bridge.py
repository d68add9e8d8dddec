"""What we are measured against: a bare bridge of pyserial and aiomqtt. It signs nothing and keeps nothing.

python bridge.py PORT HOST TCP-PORT        each line of the port is published to `bridge/line`, QoS 1
"""

from __future__ import annotations

import asyncio
import sys

import aiomqtt
import serial


async def bridge(port: str, host: str, tcp_port: int) -> None:
    """Carry lines until the process is killed."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    buffer = bytearray()
    with serial.Serial(port, 9600, timeout=0) as device:

        def readable() -> None:
            buffer.extend(device.read(4096))
            *whole, rest = bytes(buffer).split(b"\r\n")
            buffer[:] = rest
            for line in whole:
                lines.put_nowait(line)

        async with aiomqtt.Client(host, tcp_port) as client:
            asyncio.get_running_loop().add_reader(device.fileno(), readable)
            while True:
                await client.publish("bridge/line", await lines.get(), qos=1)


if __name__ == "__main__":
    asyncio.run(bridge(sys.argv[1], sys.argv[2], int(sys.argv[3])))
