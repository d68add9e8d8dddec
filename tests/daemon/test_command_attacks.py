"""What an attacker can make of the command desk: the broker, a stolen key, a wrong clock, a false friend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.chains import signer
from tests.support.commands import BOSS, DEALER, PEOPLE, Person, order, payload, trust
from tests.support.desk import TOPICS, Bench, at_desk, two_persons, why
from tests.support.tables import WHEEL

from dollyd.daemon.commands import desk as command_desk
from dollyd.daemon.commands.admission import STRANGERS_MAX
from dollyd.daemon.commands.marks import CommandMarks, marks_path
from dollyd.daemon.commands.refusals import TOLD_A_MINUTE
from dollyd.daemon.core.events import DeviceTrouble
from dollyd.wire.command import digest
from dollyd.wire.errors import ConfigError, JournalError
from dollyd.wire.stamp import NS_PER_S


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with at_desk(tmp_path) as made:
        yield made


async def test_attack_replayed_command(bench: Bench) -> None:
    """Byte for byte the same: the same answer and nothing else, also when it comes late."""
    command = DEALER.sign(order("void", bench.now()))
    first = await bench.give(command)
    bench.clock.advance(3600 * NS_PER_S)
    again = await bench.give(command)
    assert again | {"utc": first["utc"]} == first
    assert bench.table.kinds.count("void") == 1
    await bench.stop()
    bench.start()  # answers are forgotten, that it was taken is not
    bench.clock.step_utc(-3600 * NS_PER_S)
    assert why(await bench.give(command)) == "replayed"
    assert bench.table.kinds.count("void") == 1


async def test_attack_clock_set_back(bench: Bench) -> None:
    """An older command that was never delivered is no good after a newer one, whatever the clock says."""
    kept_back = DEALER.sign(order("void", bench.now()))
    bench.clock.advance(3600 * NS_PER_S)
    await bench.say(DEALER, "confirm")
    bench.clock.step_utc(-3600 * NS_PER_S)
    assert why(await bench.give(kept_back)) == "late"
    assert "void" not in bench.table.kinds


async def test_attack_the_marks_are_lost_or_spoilt(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    journal.touch()
    path = marks_path(journal)
    marks = CommandMarks(path)
    marks.take("k", "2026")
    assert CommandMarks(path).newest("k") == "2026"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ConfigError):
        CommandMarks(path)
    with pytest.raises(JournalError):
        CommandMarks(marks_path(tmp_path / "no" / "journal.db")).take("k", "2026")


async def test_marks_are_durable_before_the_effect(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_self: CommandMarks, _kid: str, _issued: str) -> None:
        assert "void" not in bench.table.kinds
        raise JournalError("disk")

    monkeypatch.setattr(CommandMarks, "take", fails)
    bench.put(DEALER.sign(order("void", bench.now())))
    await asyncio.wait(bench.tasks, timeout=2)
    assert isinstance(bench.tasks[0].exception(), JournalError)
    assert "void" not in bench.table.kinds
    bench.tasks.clear()
    bench.start()


async def test_a_disk_that_takes_its_time_makes_no_late_command_good(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No verifier would take a record that was made after its approval had expired."""
    take = CommandMarks.take

    def slowly(marks: CommandMarks, kid: str, issued: str) -> None:
        take(marks, kid, issued)
        bench.clock.advance(31 * NS_PER_S)

    monkeypatch.setattr(CommandMarks, "take", slowly)
    assert why(await bench.say(DEALER, "void")) == "late"
    assert "void" not in bench.table.kinds


@pytest.mark.parametrize("how", ["not_after", "revoked"])
async def test_attack_expired_key(bench: Bench, how: str) -> None:
    ended = bench.now(-3600)
    dealer = replace(DEALER, not_after=ended) if how == "not_after" else replace(DEALER, revoked=ended)
    bench.trust = trust(dealer, BOSS)
    assert why(await bench.say(DEALER, "void")) == "key"
    # Nor does a command help that says it was signed before.
    old = order("void", issued=bench.now(-3610), expires=bench.now(-3580))
    assert why(await bench.give(DEALER.sign(old))) == "key"


async def test_attack_key_of_another_site(bench: Bench) -> None:
    stranger = Person("d1", "dealer", signer(60))
    assert why(await bench.say(stranger, "void")) == "unknown-key"
    guest = replace(DEALER, id="guest")  # known at both sites, and says the other one
    assert why(await bench.say(guest, "void", site="casino")) == "other-site"
    assert "void" not in bench.table.kinds


async def test_attack_key_of_the_node(bench: Bench) -> None:
    assert why(await bench.say(Person("d1", "dealer", signer()), "void")) == "unknown-key"


async def test_attack_same_person_with_two_keys(bench: Bench) -> None:
    again = Person("d1", "inspector", signer(45))
    bench.trust = trust(*PEOPLE, again)
    assert "the same person twice" in (await two_persons(bench, DEALER, again))["why"]
    assert "result" not in bench.table.kinds


async def test_attack_one_key_that_changes_hands_between_two_approvals(bench: Bench) -> None:
    """Two names and one key: a trust file that renames a person in between does not make two of one."""
    bench.table.happen(DeviceTrouble(WHEEL, "lost", "unplugged"))
    proposal = DEALER.sign(order("enter", bench.now()))
    await bench.give(proposal)
    renamed = replace(DEALER, id="i2", role="inspector")
    bench.trust = trust(renamed, BOSS)
    answer = await bench.say(renamed, "approve", proposal=digest(proposal))
    assert "the same person twice" in answer["why"]
    assert "result" not in bench.table.kinds


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"round": 2}, "of another site, table, chain or round"),
        ({"value": ["32"]}, "of another outcome"),
        ({"proposal": "c" * 64}, "there is no such proposal"),
    ],
)
async def test_attack_approval_for_another_round(bench: Bench, change: dict[str, Any], said: str) -> None:
    assert said in (await two_persons(bench, DEALER, BOSS, **change))["why"]
    assert "result" not in bench.table.kinds


async def test_attack_proposer_revoked_before_the_approval(bench: Bench) -> None:
    bench.table.happen(DeviceTrouble(WHEEL, "lost", "unplugged"))
    proposal = DEALER.sign(order("enter", bench.now()))
    await bench.give(proposal)
    bench.trust = trust(replace(DEALER, revoked=bench.now(-60)), BOSS)
    answer = await bench.say(BOSS, "approve", proposal=digest(proposal))
    assert "the key of d1 was revoked" in answer["why"]
    assert "result" not in bench.table.kinds


async def test_attack_command_flood(bench: Bench) -> None:
    """The queue is bounded, the chain gets some of it and one number, and the next command is done."""
    for number in range(1000):
        bench.put(b"%d" % number)
    assert bench.desk.snapshot()["waiting"] == STRANGERS_MAX
    assert bench.desk.snapshot()["refused"]["too-many"] == 1000 - STRANGERS_MAX
    bench._awaited = STRANGERS_MAX
    await bench.idle()
    assert len(bench.table.incidents) == TOLD_A_MINUTE
    bench.clock.advance(60 * NS_PER_S)
    bench.desk._refusals.look()
    assert bench.table.incidents[TOLD_A_MINUTE:] == [f"{1000 - TOLD_A_MINUTE} more within a minute"]
    bench.desk._refusals.look()
    assert len(bench.table.incidents) == TOLD_A_MINUTE + 1
    assert (await bench.say(DEALER, "void"))["answer"] == "done"


async def test_attack_flood_of_good_commands_forgets_no_mark(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_desk, "ANSWERS_KEPT", 2)
    commands = [DEALER.sign(order("no-more-bets", bench.now(n / 1000))) for n in range(1, 5)]
    for command in commands:
        assert (await bench.give(command))["answer"] == "done"
    assert why(await bench.give(commands[0])) == "replayed"
    assert (await bench.give(commands[-1]))["answer"] == "done"


async def test_attack_retained_command(bench: Bench) -> None:
    bench.put(DEALER.sign(order("void", bench.now())), retain=True)
    await bench.idle()
    await asyncio.sleep(0.01)
    assert bench.sent == []
    assert bench.desk.snapshot()["refused"] == {"retained": 1}
    assert bench.table.incidents == ["retained"]
    assert "void" not in bench.table.kinds


GOOD = payload(order("void") | {"role": "dealer"})


@pytest.mark.parametrize(
    "trick",
    [
        b"",
        b"{}",
        b"x" * 1_000_000,
        b"[" * 100_000,
        DEALER.sign_bytes(GOOD[:-1] + b',"round":2}'),
        DEALER.sign_bytes(GOOD.replace(b":1,", b":NaN,")),
        DEALER.sign_bytes(GOOD + b"{}"),
        DEALER.sign_bytes(GOOD, "dolly-record/1"),
        DEALER.sign_bytes(GOOD[:-1] + b',"amount":"1"}'),
        DEALER.sign(order("void")) + b" ",
    ],
    ids=range(10),
)
async def test_attack_json_tricks_and_1_mb(bench: Bench, trick: bytes) -> None:
    answer = await bench.give(trick)
    assert (answer["answer"], answer["nonce"]) == ("refused", "")
    assert bench.table.incidents == [why(answer)]
    assert "void" not in bench.table.kinds


async def test_attack_nothing_unsigned_gets_into_the_chain(bench: Bench) -> None:
    """Who has no key cannot write texts into the records by being refused."""
    liar = Person("d1", "dealer", signer(60))
    await bench.say(liar, "void", reason="round 1 was 17, says the pit boss")
    await bench.give(DEALER.sign_bytes(GOOD[:-1] + b',"round 1 was 17":"1"}'))
    assert bench.table.incidents == ["unknown-key", "payload"]


async def test_attack_broker_that_injects(bench: Bench) -> None:
    """It may alter, reorder, duplicate and keep back; it cannot make a command, nor have one done twice."""
    commands = [
        DEALER.sign(order(name, bench.now(n / 1000), nonce=f"{n:032}"))
        for n, name in enumerate(("no-more-bets", "void", "close"))
    ]
    altered = bytearray(commands[1])
    for place in range(12, len(altered), 37):
        was, altered[place] = altered[place], altered[place] ^ 1
        assert (await bench.give(bytes(altered)))["answer"] == "refused"
        altered[place] = was
    assert "void" not in bench.table.kinds
    swapped = commands[1].split(b'"protected"')[0] + b'"protected"' + commands[2].split(b'"protected"')[1]
    assert why(await bench.give(swapped)) == "signature"
    for command in (commands[1], commands[0], commands[1], commands[1], commands[0]):
        await bench.give(command)
    assert bench.table.kinds.count("void") == 1
    assert [answer["answer"] for _, answer, _ in bench.sent[-5:]] == [
        "done",
        "refused",
        "done",
        "done",
        "refused",
    ]
    # What it answers itself is heard by nobody here: the desk reads no answers.
    assert {route.topic_filter for route in bench.desk.routes()} == {TOPICS.command("r1")}


async def test_l6_refusals_of_an_unfinished_minute_are_told_at_a_stop(bench: Bench) -> None:
    for number in range(1000):
        bench.put(b"%d" % number)
    bench.desk.stop()
    assert bench.table.incidents[TOLD_A_MINUTE:] == [
        f"{1000 - STRANGERS_MAX - TOLD_A_MINUTE} more within a minute"
    ]
    bench.desk.stop()
    assert len(bench.table.incidents) == TOLD_A_MINUTE + 1
