"""Blocking calls aside: nothing waits longer than it wants to, and nothing that they give is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from dollyd.drivers.transports.aside import Aside
from dollyd.wire.errors import TransportError


class Slow:
    """A call that ends when it is let go; and what came too late."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.late: list[int] = []

    def call(self) -> int:
        self.go.wait(30)
        return 7


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.go.set()


async def test_it_gives_what_the_call_gives(slow: Slow) -> None:
    slow.go.set()
    aside = Aside(slow.call, slow.late.append)
    assert await aside.result(5) == 7
    assert await aside.ended(5)
    assert slow.late == []


async def test_it_raises_what_the_call_raises() -> None:
    def call() -> None:
        raise TransportError("busy")

    aside = Aside(call)
    with pytest.raises(TransportError, match="busy"):
        await aside.result(5)
    assert await aside.ended(5)


async def test_a_result_after_the_patience_is_given_back(slow: Slow) -> None:
    aside = Aside(slow.call, slow.late.append)
    with pytest.raises(TransportError, match="hung"):
        await aside.result(0.01)
    assert not await aside.ended(0.01)
    slow.go.set()
    assert await aside.ended(5)
    assert slow.late == [7]


@pytest.mark.parametrize("in_the_same_moment", [False, True])
async def test_whoever_is_cancelled_loses_no_result(slow: Slow, in_the_same_moment: bool) -> None:
    aside = Aside(slow.call, slow.late.append)
    waiting = asyncio.create_task(aside.result(5))
    if in_the_same_moment:
        aside._result.add_done_callback(lambda _: waiting.cancel())  # comes before the task is woken
    else:
        await asyncio.sleep(0)
        waiting.cancel()
    slow.go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await aside.ended(5)
    assert slow.late == [7]
