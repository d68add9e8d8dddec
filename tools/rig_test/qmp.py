"""The two sockets by which a QEMU machine is spoken to: its monitor (QMP) and the agent in the guest (QGA).

Both take a JSON object a line, `{"execute": COMMAND, "arguments": {...}}`, and answer `{"return": ...}` or
`{"error": {"desc": ...}}`. The monitor also tells of events, and greets first. See docs/interop of QEMU.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any, Self

_LINE_BYTES = 1 << 22
"""The agent gives the whole output of a command in one line."""
_EVENTS_KEPT = 1000


class QmpError(Exception):
    """The other side refused a command, or is gone; the text is what it said."""


class Qmp:
    """One connection. One command at a time; events are kept until they are waited for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS_KEPT)
        self._busy = asyncio.Lock()

    @classmethod
    async def monitor(cls, path: Path) -> Self:
        """The monitor, ready for commands. Raises OSError, `QmpError`."""
        line = cls(*await asyncio.open_unix_connection(path, limit=_LINE_BYTES))
        try:
            await line._read()  # the greeting
            await line.execute("qmp_capabilities")
        except QmpError:
            line.close()
            raise
        return line

    @classmethod
    async def agent(cls, path: Path, *, answers_s: float) -> Self:
        """The agent, once it runs. Raises OSError, `QmpError`; TimeoutError where it does not answer."""
        line = cls(*await asyncio.open_unix_connection(path, limit=_LINE_BYTES))
        async with asyncio.timeout(answers_s):
            number = 0
            while True:  # what is said before the agent runs may be lost
                number += 1
                line._send("guest-sync", {"id": number})
                try:
                    async with asyncio.timeout(1):
                        while (await line._read()).get("return") != number:
                            pass
                except TimeoutError:
                    continue
                return line

    async def execute(self, command: str, **arguments: Any) -> Any:
        """What a command returns. Raises `QmpError`."""
        async with self._busy:
            self._send(command, arguments)
            answer = await self._read()
            while "event" in answer:
                self._events.append(answer)
                answer = await self._read()
        if "error" in answer:
            raise QmpError(f"{command}: {answer['error'].get('desc', answer['error'])}")
        return answer["return"]

    async def event(self, name: str, device: str) -> None:
        """Wait until something was told of a device. Raises `QmpError`."""
        async with self._busy:
            while not self._took(name, device):
                told = await self._read()
                if "event" in told:
                    self._events.append(told)

    def close(self) -> None:
        """The end of the connection; the machine does not mind."""
        self._writer.close()

    def _took(self, name: str, device: str) -> bool:
        for event in self._events:
            if event["event"] == name and event.get("data", {}).get("device") == device:
                self._events.remove(event)
                return True
        return False

    def _send(self, command: str, arguments: dict[str, Any]) -> None:
        self._writer.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise QmpError("the machine is gone")
        return dict(json.loads(line))
