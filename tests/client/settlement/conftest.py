"""The data bases in which the example service keeps its book."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from examples.settlement.database import Database, open_database
from tests.support.postgres import Postgres
from tests.support.settled_evening import TABLES


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a data base in PostgreSQL."""
    with Postgres() as server:
        yield server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    in_memory = request.param == "sqlite"
    with closing(open_database(":memory:" if in_memory else request.getfixturevalue("address"))) as opened:
        yield opened
        if not in_memory:
            opened.query(f"TRUNCATE {TABLES}")
