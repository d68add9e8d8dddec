"""What nearly every test here needs: a broker, somebody who listens, a daemon with one table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.broker import Mosquitto, listening
from tests.support.daemon import Consumer, Daemon, Installation
from tests.support.simulated_table import SimulatedTable


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as mosquitto:
        yield mosquitto


@pytest.fixture
async def consumer(broker: Mosquitto) -> AsyncIterator[Consumer]:
    async with listening(broker, "dolly/#") as listener:
        yield Consumer(listener)


@pytest.fixture
def installation(broker: Mosquitto, tmp_path: Path) -> Installation:
    return Installation(tmp_path, broker.address)


@pytest.fixture
async def table(installation: Installation) -> AsyncIterator[SimulatedTable]:
    async with SimulatedTable(installation.directory, odds=(1, 2, 1)) as simulated:
        yield simulated


@pytest.fixture
async def daemon(
    installation: Installation, table: SimulatedTable, consumer: Consumer
) -> AsyncIterator[Daemon]:
    """Started after the consumer, who so hears every record."""
    with Daemon(installation) as running:
        await running.started()
        yield running
