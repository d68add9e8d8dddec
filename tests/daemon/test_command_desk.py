"""The desk: whose command it is, what for, and when; and its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.chains import ChainMaker
from tests.support.commands import BOSS, DEALER, INSPECTOR, manual, order, trust
from tests.support.desk import REPLY, TOPICS, Bench, at_desk, two_persons, why

from dollyd.daemon.core.decision import setting
from dollyd.wire.command import Order
from dollyd.wire.record import Kind


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with at_desk(tmp_path) as made:
        yield made


# --- what goes well ------------------------------------------------------------------------------


async def test_t28_a_void_by_command_is_done_and_answered(bench: Bench) -> None:
    answer = await bench.say(DEALER, "void", nonce="7" * 32)
    assert {name: answer[name] for name in ("order", "nonce", "answer", "why", "records")} == {
        "order": "void",
        "nonce": "7" * 32,
        "answer": "done",
        "why": "",
        "records": [{"kind": "void", "round": 1}],
    }
    body = json.loads(bench.table.records[-1].body)
    assert (body["declared_by"], body["role"], body["text"]) == ("d1", "dealer", "a coin")
    assert bench.desk.snapshot() == {"done": 1, "waiting": 0, "refused": {}}


@pytest.mark.parametrize("name", Order)
async def test_every_order_reaches_the_core(bench: Bench, name: Order) -> None:
    """Done, or refused by the core in its own words, never by the desk."""
    if name is Order.CORRECT:
        maker = ChainMaker().begin()
        maker.add(Kind.RESULT, 1, manual())
        bench.journal.append(maker.entries)
    role = "inspector" if name in {Order.NONE_IMPRISONED, Order.INSPECTED} else "dealer"
    answer = await bench.say(INSPECTOR if role == "inspector" else DEALER, name)
    assert answer["order"] == name
    assert bench.table.incidents == []
    if answer["answer"] == "refused":
        assert bench.desk.snapshot()["refused"] == {"not-possible": 1}


async def test_what_the_core_refuses_is_answered_with_its_words(bench: Bench) -> None:
    answer = await bench.say(INSPECTOR, "void")
    assert why(answer) == "role inspector may not do this in this game"
    assert answer["records"] == [{"kind": "incident", "round": 1}]


async def test_the_answer_goes_where_it_was_asked_for_and_nowhere_else(bench: Bench) -> None:
    mine = TOPICS.command_reply("r1", "c-1")
    for wanted in (mine, "", TOPICS.record("r1", "result"), f"{mine}/x", TOPICS.command("r1"), "#"):
        bench.clock.advance(1_000_000)
        await bench.give(
            DEALER.sign(order("confirm", bench.now())), response=wanted, correlation=b"c" * (1 + len(wanted))
        )
    assert [topic for topic, _, _ in bench.sent] == [mine, REPLY, REPLY, REPLY, REPLY, REPLY]
    assert bench.sent[0][2] == b"c" * (1 + len(mine))
    await bench.give(DEALER.sign(order("confirm", bench.now(0.5))), correlation=b"x" * 129)
    assert bench.sent[-1][2] == b""


async def test_the_answer_waits_until_the_records_are_durable(bench: Bench) -> None:
    bench.unwritten = 1
    bench.put(DEALER.sign(order("void", bench.now())))
    for _ in range(100):
        await asyncio.sleep(0.001)
        if bench.table.kinds[-1] == "void":
            break
    assert bench.table.kinds[-1] == "void"
    assert bench.sent == []
    bench.unwritten = 0
    bench.desk.written()
    await bench.idle()
    await asyncio.sleep(0.01)
    assert bench.sent[-1][1]["answer"] == "done"


async def test_an_answer_that_is_lost_is_given_again(bench: Bench) -> None:
    command = DEALER.sign(order("void", bench.now()))
    bench.lost = True
    bench.put(command)
    for _ in range(200):
        await asyncio.sleep(0.001)
        if bench.desk.snapshot()["refused"]:
            break
    bench.lost = False
    assert (await bench.give(command))["answer"] == "done"
    assert bench.table.kinds.count("void") == 1
    assert bench.desk.snapshot()["refused"] == {"answer-lost": 1}


async def test_two_persons_close_a_round(bench: Bench) -> None:
    answer = await two_persons(bench, DEALER, BOSS)
    assert answer["records"] == [{"kind": "result", "round": 1}]
    body = json.loads(bench.table.records[-1].body)
    assert (body["mode"], body["outcome"]["pocket"]) == ("manual", "15")
    assert [approval["operator"] for approval in body["approvals"]] == ["d1", "p1"]


# --- whose, where, when --------------------------------------------------------------------------


async def test_without_a_trust_file_nobody_commands(bench: Bench) -> None:
    bench.trust = None
    assert why(await bench.say(DEALER, "void")) == "no-trust-file"
    bench.trust = trust()  # as SIGHUP brings it
    assert (await bench.say(DEALER, "void"))["answer"] == "done"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"site": "casino"}, "other-site"),
        ({"table": "r2"}, "other-table"),
        ({"chain": "b" * 32}, "other-chain"),
        ({"role": "pit-boss"}, "not-entitled"),
    ],
)
async def test_a_command_for_elsewhere_is_refused(bench: Bench, change: dict[str, Any], reason: str) -> None:
    answer = await bench.say(DEALER, "void", **change)
    assert why(answer) == reason
    assert answer["nonce"] == "0" * 32
    assert "void" not in bench.table.kinds
    assert bench.table.incidents == [f"void of d1: {answer['why']}" if reason[0] == "o" else reason]


@pytest.mark.parametrize(
    ("issued_s", "expires_s", "reason"),
    [(-40, -10, "late"), (-30, 0, "late"), (6, 30, "future"), (4, 30, ""), (-30, 1, "")],
)
async def test_commands_count_for_seconds(bench: Bench, issued_s: int, expires_s: int, reason: str) -> None:
    times = {"issued": bench.now(issued_s), "expires": bench.now(expires_s)}
    answer = await bench.give(DEALER.sign(order("void", **times)))
    if reason:
        assert why(answer) == reason
    else:
        assert answer["answer"] == "done"


async def test_a_table_that_is_removed_while_a_command_is_remembered_refuses_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, tables = bench.desk._marks, bench.desk._tables
    take = marks.take

    def take_and_remove(kid: str, issued: str) -> None:
        take(kid, issued)
        assert isinstance(tables, dict)
        tables.clear()

    monkeypatch.setattr(marks, "take", take_and_remove)
    assert why(await bench.say(DEALER, "void")) == "no-table"
    assert not bench.tasks[0].done()
    assert "void" not in bench.table.kinds


async def test_attack_2_a_stale_correction_is_held_against_the_journal_at_its_approval(bench: Bench) -> None:
    await bench.say(DEALER, "void")
    night = ChainMaker().begin()
    played = manual(setting=msgspec.to_builtins(setting(bench.table.engine.setup)))
    night.add(Kind.RESULT, 1, played)
    bench.journal.append(night.entries)
    assert (await bench.say(INSPECTOR, "correct", value=["7"]))["answer"] == "done"
    proposal = bench.table.proposal
    assert proposal is not None
    before = len(night.entries)
    night.add(Kind.RESULT, 2, played)
    bench.journal.append(night.entries[before:])
    answer = await bench.say(BOSS, "approve", value=["7"], proposal=proposal.digest)
    assert "ask once more" in answer["why"]
    assert "correction" not in bench.table.kinds


async def test_a_correction_needs_its_round_in_the_journal(bench: Bench) -> None:
    assert why(await bench.say(INSPECTOR, "correct")) == "no-final-record"
