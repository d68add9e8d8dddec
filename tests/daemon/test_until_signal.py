"""`dollyd witness` and `dollyd archive` end when they are asked to."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from dollyd.daemon.cli.until_signal import until_signal


async def stubborn(times: int) -> None:
    """Work that loses its first cancellations."""
    for _ in range(times):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
    await asyncio.sleep(60)


@pytest.mark.parametrize("times", [0, 2])
def test_a_signal_ends_it_even_where_a_cancellation_is_lost(times: int) -> None:
    async def told() -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(until_signal(stubborn(times)), 10)

    asyncio.run(told())


def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"):
        asyncio.run(until_signal(fail()))
