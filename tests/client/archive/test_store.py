"""What the data base keeps: everything once, whole or not, in views that say what was counted."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import psycopg
import pytest
from tests.client.test_trust import END, node, trusted
from tests.support.archives import OpenStore, bring, count, holds, intake_of, plain
from tests.support.chains import SITE, ChainMaker, decision, signer
from tests.support.commands import BOSS, INSPECTOR, correction, trust, two
from tests.support.evenings import SETTING, STAKES, House

from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.archive.store import SchemaError, Store, StoreError, migrations
from dollyd.client.stream.replay import REPLAY_MAX
from dollyd.wire.jws import parse_envelope, strict_object
from dollyd.wire.record import Kind

RECORDS = 5_000
BATCH = 250


def batches(envelopes: list[bytes]) -> Iterator[list[bytes]]:
    for first in range(0, len(envelopes), BATCH):
        yield envelopes[first : first + BATCH]


@pytest.fixture(scope="module")
def house() -> House:
    return House(Random(7)).play(RECORDS)


# --- exactly once --------------------------------------------------------------------------------


def test_two_instances_archive_a_disordered_doubled_stream_exactly_once(
    open_store: OpenStore, house: House, seed: int
) -> None:
    rng = Random(seed)
    every = house.envelopes
    # What each hears: its part, half of the other's again, all out of order.
    parts = [every[turn::2] + rng.sample(every, len(every) // 2) for turn in (0, 1)]
    for part in parts:
        rng.shuffle(part)

    def archive(part: list[bytes]) -> int:
        mine = open_store()
        return sum(bring(mine, batch) for batch in batches(part))

    with ThreadPoolExecutor(2) as instances:
        brought = list(instances.map(archive, parts))
    store = open_store()
    store.advance()
    assert sum(brought) == len(every)
    assert min(brought) > 0
    assert [name for name, right in holds(store, house).items() if not right] == []


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 2)
    broken = list(intake_of(store).take(map(Heard, maker.envelopes)))
    broken[-1] = replace(broken[-1], rows=broken[-1].rows * 2)
    with pytest.raises((sqlite3.Error, psycopg.Error)):  # one row twice: its key says no
        store.insert(broken, {})
    assert count(store, "records") == count(store, "links") == count(store, "chains") == 0
    assert bring(store, maker.envelopes) == 7


def test_exceptional_events_have_the_gaming_date_of_their_session(
    open_store: OpenStore, house: House
) -> None:
    store = open_store()
    for batch in batches(house.envelopes):
        bring(store, batch)
    dated = store.query("SELECT gaming_date, count(*) FROM evening_incidents GROUP BY gaming_date")
    assert sum(number for _, number in dated) == house.incidents > 0
    assert {str(day) for day, _ in dated} <= {day for _, day in house.ended}
    assert store.query("SELECT * FROM open_rounds") == []


# --- chains --------------------------------------------------------------------------------------


def test_holes_are_found_and_a_chain_is_whole_up_to_the_first(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 10)
    lost = {5, 6, 9}
    bring(store, [one for seq, one in enumerate(maker.envelopes, 1) if seq not in lost])
    store.advance()
    (gap,) = store.gaps()
    assert (gap.first, gap.last, gap.certain) == (5, 9, True)
    (chain,) = store.chains()
    assert (chain.begins, chain.complete_to, chain.tip) == (1, 4, 31)
    bring(store, [maker.envelopes[seq - 1] for seq in lost])
    store.advance()
    assert store.gaps() == []
    assert store.chains()[0].complete_to == 31


def test_holes_far_apart_are_asked_for_one_by_one(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 200)
    bring(store, [one for seq, one in enumerate(maker.envelopes, 1) if seq not in {5, 6, 256, 507}])
    store.advance()
    (gap,) = store.gaps()
    assert (gap.first, gap.last) == (5, 256)


def test_no_gap_is_larger_than_one_request(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 400)
    bring(store, [maker.envelopes[-1]])
    (gap,) = store.gaps()
    assert (gap.first, gap.last) == (1, REPLAY_MAX)


def test_a_record_signed_with_an_unknown_key_makes_a_gap_that_is_not_certain(store: Store) -> None:
    maker = ChainMaker().begin()
    bring(store, maker.envelopes)
    maker.signer = signer(2)
    bring(store, [maker.add(Kind.ROUND, 1)])
    store.advance()
    (gap,) = store.gaps()
    assert (gap.first, gap.last, gap.certain) == (2, 2, False)
    store.forget_heard(maker.chain)
    assert store.gaps() == []


def test_a_rotated_key_is_known_to_the_other_instance(open_store: OpenStore) -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    bring(open_store(), maker.envelopes)
    maker.signer = signer(2)
    other = open_store()
    assert bring(other, [maker.add(Kind.ROUND, 1)]) == 1


@pytest.mark.parametrize("revoked", [False, True])
def test_a_rotated_key_is_as_good_as_the_one_that_announced_it_to_another_instance(
    open_store: OpenStore, *, revoked: bool
) -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "yearly"})
    bring(open_store(), maker.envelopes)
    maker.signer = signer(2)
    other = open_store()
    trust = trusted(node(signer(1), **({"revoked": END, "reason": "stolen"} if revoked else {})))
    intake = Intake(SITE, trust, other.announced)
    assert other.announced(maker.chain) == [(signer(2).jwk["x"], signer(1).kid)]
    assert len(intake.take([Heard(maker.add(Kind.ROUND, 1))])) == (0 if revoked else 1)


def test_the_first_key_of_a_chain_does_not_vouch_for_itself(store: Store) -> None:
    """Trust was taken from it after the chain began: what is archived must not give it back."""
    maker = ChainMaker().begin()
    bring(store, maker.envelopes)
    assert bring(store, [maker.add(Kind.ROUND, 1)], signer(3)) == 0


def test_another_record_under_a_number_is_kept_as_a_contradiction(store: Store) -> None:
    maker, forger = ChainMaker().begin(), ChainMaker().begin()
    kept, other = maker.add(Kind.ROUND, 1), forger.add(Kind.ROUND, 2)
    bring(store, maker.envelopes)
    bring(store, [other, other, kept])
    assert count(store, "records") == 2
    assert [bytes(row[0]) for row in store.query("SELECT envelope FROM contradictions")] == [other]


def test_a_chain_whose_links_do_not_fit_is_broken_there(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 2)
    maker.prev = "f" * 64
    maker.play(3, 3)
    bring(store, maker.envelopes)
    store.advance()
    (chain,) = store.chains()
    assert (chain.complete_to, chain.tip) == (7, 10)
    assert chain.broken == "its prev is not the digest of record 7"
    assert store.gaps() == []


def test_attack_1_what_a_node_s_key_makes_alone_is_not_archived_as_good(store: Store) -> None:
    for number, body in enumerate((correction(corrects=4) | {"approvals": []}, correction(corrects=3))):
        maker = ChainMaker(f"r{number}", f"{number:032x}").begin().play(1, 1)
        maker.add(Kind.CORRECTION, 1, body)
        bring(store, maker.envelopes)
    store.advance(trust())
    assert [chain.complete_to for chain in store.chains()] == [4, 4]
    assert all(chain.broken for chain in store.chains())


def test_a_person_whom_another_trust_file_knows_is_believed_then(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 1)
    maker.add(Kind.CORRECTION, 1, correction(corrects=4))
    bring(store, maker.envelopes)
    for file, complete_to in ((trust(INSPECTOR), 4), (trust(INSPECTOR), 4)):
        store.advance(file)
        assert store.chains()[0].complete_to == complete_to
    assert "is not that of p1" in store.chains()[0].broken
    store._judged_by = 0  # as after a newer version, or a restart
    store.advance(trust())
    (chain,) = store.chains()
    assert (chain.complete_to, chain.broken) == (5, "")


def test_attack_1_a_second_result_stops_the_archived_chain_there_also_later(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 2)
    bring(store, maker.envelopes)
    store.advance()
    maker.add(Kind.RESULT, 2, decision(pocket="17"))
    bring(store, maker.envelopes[-1:])
    store.advance()
    (chain,) = store.chains()
    assert (chain.complete_to, chain.broken) == (7, "second final record of round 2")


def test_attack_1_a_key_out_of_turn_stops_the_archived_chain(store: Store) -> None:
    maker = ChainMaker().begin()
    maker.signer = signer(2)
    maker.add(Kind.ROUND, 1)
    bring(store, maker.envelopes, signer(1), signer(2))
    store.advance()
    (chain,) = store.chains()
    assert chain.complete_to == 1
    assert "it is the turn of key" in chain.broken


def test_attack_3b_a_second_chain_of_a_table_is_not_archived_as_good_until_people_accept_it(
    store: Store,
) -> None:
    old, new = ChainMaker(chain="b" * 32).begin().play(1, 2), ChainMaker(chain="a" * 32).begin().play(1, 1)
    for maker in (old, new):
        bring(store, maker.envelopes)
        store.advance()
    broken = {chain.chain: chain.broken for chain in store.chains()}
    assert broken == {
        old.chain: "",
        new.chain: f"a new chain that does not name the one before it, {old.chain}",
    }
    assert {chain.complete_to for chain in store.chains()} == {7, 0}
    assert not store.accept(old.chain)
    assert store.accept(new.chain)
    bring(store, new.play(2, 2).envelopes)
    store.advance()
    assert [(chain.broken, chain.complete_to) for chain in store.chains()] == [("", 7), ("", 7)]


def test_attack_3c_a_chain_that_another_follows_is_asked_for_to_its_end_and_not_behind(store: Store) -> None:
    old = ChainMaker().begin().play(1, 2)
    new = ChainMaker(chain="b" * 32).begin(after=old)
    bring(store, [*old.envelopes[:-2], *new.envelopes])
    store.advance()
    (gap,) = store.gaps()
    assert (gap.chain, gap.first, gap.last) == (old.chain, 6, 7)
    bring(store, old.envelopes)
    store.advance()
    assert {chain.broken for chain in store.chains()} == {""}
    bring(store, old.play(3, 3).envelopes)
    store.advance()
    broken = {chain.chain: chain.broken for chain in store.chains()}
    assert broken == {old.chain: "the chain goes on after its end at record 7", new.chain: ""}
    assert {chain.complete_to for chain in store.chains()} == {7, 1}


def test_a_record_of_which_only_the_link_is_left_is_passed(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 3)
    bring(store, maker.envelopes)
    store.query("DELETE FROM records WHERE seq = 5")
    store.advance()
    (chain,) = store.chains()
    assert (chain.complete_to, chain.broken) == (10, "")


def test_a_chain_whose_beginning_nobody_keeps_begins_later(store: Store) -> None:
    maker = ChainMaker().begin().play(1, 3)
    bring(store, maker.envelopes[4:])
    store.begin(maker.chain, 5, _prev_of(maker, 5))
    store.advance()
    (chain,) = store.chains()
    assert (chain.begins, chain.complete_to) == (5, 10)
    store.begin(maker.chain, 8, "f" * 64)
    assert store.chains() == [chain]


def _prev_of(maker: ChainMaker, seq: int) -> str:
    return sha256(maker.envelopes[seq - 2]).hexdigest()


def test_one_connection_at_a_time_looks_after_gaps(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()
    assert first.hold()
    assert first.hold()
    assert not second.hold()
    first.close()
    deadline_s = time.monotonic() + 10
    while not second.hold():  # a server takes a moment to see that a connection has ended
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


# --- views ---------------------------------------------------------------------------------------


def test_an_evening_shows_its_rounds_voids_and_corrections(store: Store) -> None:
    house = House(Random(3)).play(100, tables=1, rounds=300)
    bring(store, house.envelopes)
    columns = "ended, results, voids, corrected, manual, minimum, maximum, currency, checks"
    (evening,) = store.query(f"SELECT {columns} FROM evenings")
    voids = sum(house.voids.values())
    corrected = count(store, "corrections")
    assert evening[:8] == (300, 300 - voids, voids, corrected, house.manual.total(), 200, 50_000, "EUR")
    assert voids > 0 < corrected
    assert plain(evening[8]) == {"wheel": "level"}
    rounds = store.query(
        "SELECT round, outcome, outcome_first FROM evening_rounds WHERE corrected_by IS NOT NULL"
    )
    assert all(plain(after) != plain(before) for _, after, before in rounds)
    assert len(rounds) == corrected


PLAYED_HERE: dict[str, Any] = {"setting": SETTING, "stakes": STAKES}


def test_a_result_corrected_to_a_void_leaves_the_ordered_results(store: Store) -> None:
    house = House(Random(1)).play(30, tables=1, rounds=10)
    maker = house.chains["r1"]
    number = next(entry.round for entry in maker.entries if entry.kind == Kind.RESULT)
    last = next(entry for entry in maker.entries if entry.kind == Kind.RESULT)
    pocket = payload_of(last.envelope)["body"]["outcome"]["pocket"]
    agreed = two(
        "correct", (INSPECTOR, BOSS), chain=maker.chain, round=number, value=None, reason="the video"
    )
    body = PLAYED_HERE | {
        "id": agreed.id,
        "corrects": last.seq,
        "element": "verdict",
        "before": {"kind": "result", "outcome": {"pocket": pocket}},
        "after": {"kind": "void", "rule": "coin-in-the-wheel", "stake_policy": "returned"},
        "gaming_date": payload_of(last.envelope)["body"]["gaming_date"],
        "reason": "the video",
        "approvals": agreed.approvals,
    }
    maker.add(Kind.CORRECTION, number, body)
    bring(store, maker.envelopes)
    store.advance()
    assert store.query("SELECT round FROM ordered_results WHERE round = ?", number) == []
    assert count(store, "ordered_results") == len(house.ordered["r1"]) - 1
    rates = store.query("SELECT role, voids FROM void_rates WHERE rule = 'coin-in-the-wheel'")
    assert rates == [("two-persons", 1)]


def test_results_behind_a_hole_are_not_in_order_yet(store: Store) -> None:
    house = House(Random(2)).play(30, tables=1, rounds=10)
    envelopes = house.envelopes
    bring(store, [one for seq, one in enumerate(envelopes, 1) if seq != 6])
    store.advance()
    assert count(store, "ordered_results") < 2 <= count(store, "results")


def test_an_evening_that_goes_on_in_another_chain_is_one(store: Store) -> None:
    house = House(Random(4)).play(30, tables=1, rounds=10)
    session = next(entry for entry in house.chains["r1"].entries if entry.kind == Kind.SESSION)
    opened_at = payload_of(session.envelope)["body"]
    after = ChainMaker(chain="e" * 32).begin()
    after.add(Kind.SESSION, body=opened_at | {"event": "resumed", "by": "dollyd"})
    bring(store, [*house.envelopes, *after.envelopes])
    assert store.query("SELECT resumed FROM evenings") == [(1,)]


def payload_of(envelope: bytes) -> dict[str, Any]:
    return strict_object(parse_envelope(envelope).payload, "payload")


# --- schema --------------------------------------------------------------------------------------


def steps_of(store: Store) -> list[str]:
    return [f"{step.version:04} {step.name}" for step in migrations(store.dialect)]


def test_an_older_schema_is_brought_forward_and_keeps_what_it_has(bare: OpenStore) -> None:
    maker = ChainMaker().begin().play(1, 3)
    store = bare()
    assert store.migrate(upto=1) == ["0001 tables"]
    bring(store, maker.envelopes)
    assert store.migrate() == steps_of(store)[1:]
    assert store.migrate() == []
    store.advance()
    assert count(store, "records") == 10
    assert (
        count(store, "ordered_results") == 0
    )  # bodies of these results are not whole, and nothing is guessed


def test_two_that_start_at_once_make_the_schema_once(bare: OpenStore) -> None:
    stores = [bare() for _ in range(4)]
    with ThreadPoolExecutor(4) as instances:
        taken = [step for steps in instances.map(Store.migrate, stores) for step in steps]
    assert sorted(taken) == steps_of(stores[0])


def test_a_newer_or_another_schema_is_refused(store: Store) -> None:
    store.query("INSERT INTO schema_steps (version, name, digest) VALUES (99, 'later', 'x')")
    with pytest.raises(SchemaError, match="newer than this program"):
        store.migrate()
    store.query("DELETE FROM schema_steps WHERE version = 99")
    store.query("UPDATE schema_steps SET digest = 'x' WHERE version = 2")
    with pytest.raises(SchemaError, match="another text"):
        store.migrate()


def test_both_dialects_have_the_same_steps() -> None:
    names = [
        [(step.version, step.name) for step in migrations(dialect)] for dialect in ("sqlite", "postgresql")
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_partitions_are_made_by_month_also_by_two_at_once(open_store: OpenStore) -> None:
    house = House(Random(5)).play(400, rounds=4)
    with ThreadPoolExecutor(2) as instances:
        list(
            instances.map(
                lambda part: bring(open_store(), part), [house.envelopes[::2], house.envelopes[1::2]]
            )
        )
    names = open_store().query("SELECT tablename FROM pg_tables WHERE tablename LIKE 'records_2%' ORDER BY 1")
    months = sorted(
        {str(row[0]) for row in open_store().query("SELECT to_char(utc, 'YYYY_MM') FROM records")}
    )
    assert [name for (name,) in names] == [f"records_{month}" for month in months]
    assert len(months) >= 2


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_lost_server_is_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError):
        store.query("SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(StoreError):
        store.advance()


def test_a_body_that_is_not_of_its_kind_is_kept_as_it_is(store: Store) -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.RESULT, 1, decision())
    maker.add(Kind.INCIDENT, 0, {"what": "a\0b", "text": "t", "details": {"k": "v\0"}})
    bring(store, maker.envelopes)
    assert count(store, "records") == 3
    assert count(store, "results") == 0
    assert store.query("SELECT what FROM incidents") == [("a\N{REPLACEMENT CHARACTER}b",)]
