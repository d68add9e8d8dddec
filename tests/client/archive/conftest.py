"""Every test of the archive runs with SQLite and with a real PostgreSQL, which is one cluster a test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.archives import OpenStore
from tests.support.postgres import Postgres

from dollyd.client.archive.postgres import PostgresStore
from dollyd.client.archive.sqlite import SqliteStore
from dollyd.client.archive.store import Store


@pytest.fixture(scope="session")
def cluster() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty data base, as the command line takes it."""
    if request.param == "sqlite":
        return str(tmp_path / "archive.db")
    cluster: Postgres = request.getfixturevalue("cluster")
    return cluster.new_database()


@pytest.fixture
def bare(database: str) -> Iterator[OpenStore]:
    """Connections to a data base without schema; they are closed after the test."""
    opened: list[Store] = []

    def connect() -> Store:
        store = PostgresStore(database) if "://" in database else SqliteStore(Path(database))
        opened.append(store)
        return store

    yield connect
    for store in opened:
        store.close()


@pytest.fixture
def open_store(bare: OpenStore) -> OpenStore:
    """Connections to a data base with our schema."""
    bare().migrate()
    return bare


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()
