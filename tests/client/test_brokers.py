"""One rule for every client that has a list of brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest
from structlog.testing import capture_logs

from dollyd.client.stream import brokers
from dollyd.client.stream.brokers import SHORT_LINKS, Brokers
from dollyd.daemon.link.mqtt import Cause, LinkError


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "PAUSE_FIRST_S", 0.0)


async def way(
    end: Callable[[Brokers, str, int], Cause], *names: str, tries: int, quiet_s: float = 60
) -> list[str]:
    """Where a client was, one after the other; `end` is what it does there, and how that ends."""
    mine, been = Brokers(names, quiet_s, Random(1)), list[str]()

    async def use(broker: str) -> None:
        been.append(broker)
        if len(been) == tries:
            raise LinkError(Cause.LEFT)
        raise LinkError(end(mine, broker, len(been)))

    working: Awaitable[None] = mine.keep(use)
    await working
    return been


async def test_n5_the_same_broker_is_tried_again_first() -> None:
    def cut(mine: Brokers, _broker: str, _number: int) -> Cause:
        mine.linked()
        return Cause.CLOSED

    assert await way(cut, "a", "b", tries=3) == ["a", "a", "a"]


async def test_n5_a_broker_that_gives_no_link_is_passed_over_and_so_is_one_that_gives_short_ones() -> None:
    def refuse(mine: Brokers, broker: str, _number: int) -> Cause:
        if broker == "b":
            mine.linked()
            return Cause.CLOSED
        return Cause.REFUSED

    assert await way(refuse, "a", "b", tries=4 + SHORT_LINKS) == ["a", *["b"] * SHORT_LINKS, "a", "b", "b"]


async def test_n5_a_broker_at_which_no_node_is_heard_is_left_and_that_is_told() -> None:
    def quiet(mine: Brokers, broker: str, _number: int) -> Cause:
        mine.linked()
        try:
            mine.look(online=broker == "b")
        except LinkError as error:
            assert mine.fresh
            return error.cause
        return Cause.CLOSED

    with capture_logs() as logs:
        assert await way(quiet, "a", "b", tries=3, quiet_s=-1) == ["a", "b", "a"]
        assert await way(quiet, "b", tries=2, quiet_s=60) == ["b", "b"]
    assert next((log["event"], log["broker"], log["cause"]) for log in logs) == ("broker_lost", "a", "silent")


async def test_n5_with_one_broker_any_message_is_a_sign_of_life() -> None:
    mine = Brokers(("a",), 60, Random(1))
    mine.linked()
    mine.heard()
    mine.look(online=False)
