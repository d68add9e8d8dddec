"""A line to the broker that can be cut, and that can lose what the broker says."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.broker import Line, Mosquitto

_READ_BYTES = 65536


class FaultyLine(Line):
    """While `swallowing`, the broker hears all and nobody hears the broker; such a line must be cut then.

    A broker that is not there is a connection refused. Who connects while the line is deaf waits.
    """

    def __init__(self, broker: Mosquitto) -> None:
        super().__init__(broker)
        self.swallowing = False
        self._ends: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Reset every connection; what was on the way is lost."""
        for carrier in self._carriers:
            carrier.cancel()
        for end in self._ends:
            end.transport.abort()

    async def _accept(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self._ends.add(near_out)
        try:
            await self.open.wait()
            if near_out.is_closing():
                return
            far, far_out = await asyncio.open_connection(self._broker.host, self._broker.port)
            self._ends.add(far_out)
            carriers = {
                asyncio.create_task(self._carry(near, far_out)),
                asyncio.create_task(self._answer(far, near_out)),
            }
            self._carriers |= carriers
            await asyncio.wait(carriers)
            self._carriers -= carriers
            self._ends.discard(far_out)
        except OSError:
            near_out.transport.abort()
        finally:
            self._ends.discard(near_out)

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
