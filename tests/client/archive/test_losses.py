"""Records that people give up for lost: how an archive goes on behind them, and what it keeps of that."""

from __future__ import annotations

import pytest
from tests.support.archives import OpenStore, bring
from tests.support.chains import ChainMaker, signer
from typer.testing import CliRunner

from dollyd.client.archive.losses import Loss, NoLossError, accept_loss
from dollyd.client.archive.store import Store
from dollyd.daemon.cli import application
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import Kind


@pytest.fixture(autouse=True)
def no_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers would keep the runner's stream, which is closed after its call."""
    monkeypatch.setattr("dollyd.daemon.cli.archive.configure_logging", lambda **_: None)


def with_hole(store: Store, *lost: int, maker: ChainMaker | None = None) -> ChainMaker:
    maker = maker or ChainMaker().begin().play(1, 10)
    bring(store, [one for seq, one in enumerate(maker.envelopes, 1) if seq not in lost])
    store.advance()
    return maker


def whole(store: Store) -> list[tuple[int, int, int, str]]:
    return [(chain.begins, chain.complete_to, chain.lost, chain.broken) for chain in store.chains()]


def test_l3_an_archive_goes_on_behind_records_that_people_give_up_for_lost(open_store: OpenStore) -> None:
    store = open_store()
    maker = with_hole(store, 5, 6, 20)
    assert accept_loss(store, maker.chain, 6) == Loss("r1", maker.chain, 5, 6)
    store.advance()
    assert whole(store) == [(1, 19, 2, "")]
    assert [(gap.first, gap.last) for gap in store.gaps()] == [(20, 20)]
    other = open_store()  # as after a restart
    accept_loss(other, maker.chain, 20)
    other.advance()
    bring(other, maker.play(11, 12).envelopes)
    other.advance()
    assert whole(other) == [(1, maker.seq, 3, "")]
    losses = other.query("SELECT chain, first_seq, last_seq FROM losses ORDER BY first_seq")
    assert losses == [(maker.chain, 5, 6), (maker.chain, 20, 20)]


@pytest.mark.parametrize(
    ("upto", "why"),
    [
        (4, "missing are records 5 to 6"),
        (7, "missing are records 5 to 6"),
        (20, "missing are records 5 to 6"),
    ],
)
def test_l3_nothing_is_given_up_that_is_there(store: Store, upto: int, why: str) -> None:
    maker = with_hole(store, 5, 6, 20)
    with pytest.raises(NoLossError, match=why):
        accept_loss(store, maker.chain, upto)
    assert whole(store) == [(1, 4, 0, "")]
    assert store.query("SELECT * FROM losses") == []


def test_l3_what_has_no_hole_loses_nothing(store: Store) -> None:
    maker = with_hole(store)
    with pytest.raises(NoLossError, match="nothing is missing behind record 31"):
        accept_loss(store, maker.chain, 32)
    with pytest.raises(NoLossError, match="no chain"):
        accept_loss(store, "c" * 32, 5)
    bad = with_hole(store, 3, maker=ChainMaker(chain="b" * 32).begin().play(1, 2))
    with pytest.raises(NoLossError, match="does not name the one before it"):
        accept_loss(store, bad.chain, 3)


def test_l3_where_the_beginning_is_lost_the_chain_begins_behind_it(store: Store) -> None:
    maker = with_hole(store, *range(1, 8))
    accept_loss(store, maker.chain, 7)
    store.advance()
    assert whole(store) == [(8, 31, 7, "")]
    began = "SELECT l.seq FROM links l JOIN chains c ON l.chain = c.chain AND l.seq = c.begins"
    assert store.query(began) == [(8,)], "results are put in order by it"


def test_l3_behind_a_loss_the_rules_hold_and_the_next_record_tells_whose_turn_it_is(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 2)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    maker.signer = signer(2)
    maker.play(3, 4)
    bring(store, [*maker.envelopes[:7], *maker.envelopes[8:]], signer(), signer(2))
    store.advance()
    accept_loss(store, maker.chain, 8)
    store.advance()
    assert whole(store) == [(1, maker.seq, 1, "")]
    maker.add(Kind.RESULT, 4)
    bring(store, maker.envelopes[-1:], signer(), signer(2))
    store.advance()
    ((_, complete_to, _, broken),) = whole(store)
    assert (complete_to, broken != "") == (maker.seq - 1, True), "a second end of round 4"


def test_l3_a_chain_whose_end_is_lost_ends_where_the_next_one_says(store: Store) -> None:
    old = ChainMaker().begin().play(1, 2)
    new = ChainMaker(chain="b" * 32).begin(after=old)
    bring(store, [*old.envelopes[:-2], *new.envelopes])
    store.advance()
    with pytest.raises(NoLossError, match="missing are records 6 to 7"):
        accept_loss(store, old.chain, 8)
    accept_loss(store, old.chain, 7)
    store.advance()
    assert store.gaps() == []
    assert {chain.chain: (chain.complete_to, chain.broken) for chain in store.chains()} == {
        old.chain: (7, ""),
        new.chain: (new.seq, ""),
    }


def test_l3_the_command_gives_up_what_is_named_and_nothing_else(store: Store, database: str) -> None:
    maker = with_hole(store, 5, 6)
    given = ["archive", "accept-loss", maker.chain, "--database", database, "--upto"]
    wrong = CliRunner().invoke(application, [*given, "9"])
    assert isinstance(wrong.exception, ConfigError)
    assert "missing are records 5 to 6" in str(wrong.exception)
    done = CliRunner().invoke(application, [*given, "6"])
    assert done.exit_code == 0, done.output
    assert f"records 5 to 6 of table r1, chain {maker.chain} are given up" in done.output
    store.advance()
    assert whole(store) == [(1, 31, 2, "")]
