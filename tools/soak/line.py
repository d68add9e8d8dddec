"""A line to the broker that can be cut, and that can lose what the broker says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

from tests.support.broker import Line, Mosquitto, Stream

_READ_BYTES = 65536


class FaultyLine(Line):
    """While `swallowing`, the broker hears all and nobody hears the broker; such a line must be cut then.

    A broker that is not there is a connection refused. Who connects while the line is deaf waits.
    """

    def __init__(self, broker: Mosquitto, far_port: int = 0) -> None:
        super().__init__(broker, far_port)
        self.swallowing = False
        self.refusing = False
        """Who connects is cut at once."""

    async def _accept(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        if self.refusing:
            near_out.transport.abort()
        else:
            await super()._accept(near, near_out)

    def carriers(
        self, near: Stream, far: Stream
    ) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        """What comes back is lost while `swallowing`."""
        return self._carry(near[0], far[1]), self._answer(far[0], near[1])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await reader.read(_READ_BYTES):
                    await self.open.wait()
                    if not self.swallowing:
                        writer.write(data)
                        await writer.drain()
        finally:
            writer.close()
