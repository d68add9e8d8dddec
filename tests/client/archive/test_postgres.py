"""What only a server does: it pools, changes places, and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from tests.support.archives import bring, count
from tests.support.chains import ChainMaker
from tests.support.postgres import Postgres, pooled

from dollyd.client.archive.postgres import PostgresStore, _Trouble
from dollyd.client.archive.store import StoreError


@pytest.fixture
def address(cluster: Postgres) -> str:
    made = cluster.new_database()
    with closing(PostgresStore(made)) as store:
        store.migrate()
    return made


@pytest.fixture
def two(cluster: Postgres, address: str) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two archives behind one pooler."""
    with (
        pooled(cluster, address) as pool,
        closing(PostgresStore(pool)) as one,
        closing(PostgresStore(pool)) as other,
    ):
        yield one, other


def test_n9_two_archives_behind_a_pooler_in_transaction_mode(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    maker = ChainMaker().begin().play(1, 12)
    for number, envelope in enumerate(maker.envelopes):
        assert bring(two[number % 2], [envelope]) == 1
        assert bring(two[1 - number % 2], [envelope]) == 0
    assert count(two[0], "records") == maker.seq
    assert [store.hold() for store in two] == [True, False]
    assert [store.hold() for store in reversed(two)] == [False, True]
    two[0].close()
    assert two[1].hold(), "no lock stays with a connection of the pool"


def test_n9_the_place_of_a_keeper_that_is_not_heard_of_falls_free(address: str) -> None:
    with closing(PostgresStore(address)) as gone, closing(PostgresStore(address)) as other:
        assert gone.hold()
        assert not other.hold()
        other.query("UPDATE keeper SET until = now() - interval '1 s'")  # as if it had been silent so long
        assert other.hold()
        gone._renew_s = 1e-9  # when it wants its lease renewed, it is somebody else's
        assert not gone.hold()


def test_n11_a_server_that_turns_read_only_is_waited_for(address: str) -> None:
    maker = ChainMaker().begin().play(1, 2)
    with closing(PostgresStore(address)) as store:
        store.query("SET default_transaction_read_only = on")
        with pytest.raises(StoreError, match="read-only"):
            bring(store, maker.envelopes)
        store.query("SET default_transaction_read_only = off")
        assert bring(store, maker.envelopes) == maker.seq


@pytest.mark.parametrize(
    "state", ["25006", "25P03", "57P04", "57P01", "53300", "XX000", "26000", "40001", "08006"]
)
def test_n11_what_the_server_may_mend_by_itself_is_waited_out(state: str) -> None:
    with pytest.raises(StoreError), _Trouble():
        raise psycopg.errors.lookup(state)("trouble")


@pytest.mark.parametrize("state", ["42601", "23505", "22003", "42P01"])
def test_n11_a_mistake_of_ours_is_not(state: str) -> None:
    with pytest.raises(psycopg.Error), _Trouble():
        raise psycopg.errors.lookup(state)("mistake")
