"""How the commands that follow a site end: by a signal, or with the work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

AGAIN_S = 0.5
"""Python 3.11 can lose a cancellation in a task group; then it is asked for again."""


async def until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Work until SIGTERM or SIGINT comes. Raises what the work raises."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    working, asking = asyncio.create_task(work), asyncio.create_task(asked.wait())
    await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
    asking.cancel()
    while not working.done():
        working.cancel()
        await asyncio.wait({working}, timeout=AGAIN_S)
    if not working.cancelled():
        working.result()
