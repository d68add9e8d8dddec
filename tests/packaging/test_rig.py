"""The parts of the rig that need no machine: its monitor, its judgement, its descriptors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tools.rig_test import judge
from tools.rig_test.gadget import descriptors, strings
from tools.rig_test.judge import Played, Window
from tools.rig_test.qmp import Qmp, QmpError

NOON_S = 1_796_040_000.0
"""2026-11-30T12:00:00Z"""


@asynccontextmanager
async def qemu(
    path: Path, greeting: str, answer: Callable[[dict[str, Any]], list[Any]]
) -> AsyncIterator[None]:
    """What speaks at the other end of the socket, to one after the other."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting.encode())
        while line := await reader.readline():
            answers = answer(json.loads(line))
            if answers == ["cut"]:
                break
            for told in answers:
                writer.write(json.dumps(told).encode() + b"\n")
        writer.close()
        ended.set()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
        await asyncio.wait_for(ended.wait(), 5)
    finally:
        server.close()
        await server.wait_closed()


async def test_an_event_that_came_before_its_answer_is_not_lost(tmp_path: Path) -> None:
    gone = {"event": "DEVICE_DELETED", "data": {"device": "usb-r1"}}

    def answer(asked: dict[str, Any]) -> list[Any]:
        return [gone, {"return": {}}] if asked["execute"] == "device_del" else [{"return": {}}]

    async with qemu(tmp_path / "qmp", '{"QMP": {}}\n', answer):
        line = await Qmp.monitor(tmp_path / "qmp")
        await line.execute("device_del", id="usb-r1")
        await asyncio.wait_for(line.event("DEVICE_DELETED", "usb-r1"), 30)
        line.close()


async def test_a_refused_command_says_why(tmp_path: Path) -> None:
    def answer(asked: dict[str, Any]) -> list[Any]:
        refused = {"error": {"class": "GenericError", "desc": "no such port"}}
        return [refused if asked["execute"] == "device_add" else {"return": {}}]

    async with qemu(tmp_path / "qmp", '{"QMP": {}}\n', answer):
        line = await Qmp.monitor(tmp_path / "qmp")
        with pytest.raises(QmpError, match="device_add: no such port"):
            await line.execute("device_add", driver="usb-serial")
        line.close()


async def test_what_the_agent_said_to_somebody_before_is_passed_by(tmp_path: Path) -> None:
    def answer(asked: dict[str, Any]) -> list[Any]:
        stale = [{"return": {"pid": 7}}] if asked["execute"] == "guest-sync" else []
        return [*stale, {"return": asked["arguments"].get("id", "fresh")}]

    async with qemu(tmp_path / "qga", "", answer):
        line = await Qmp.agent(tmp_path / "qga", answers_s=5)
        assert await line.execute("guest-ping") == "fresh"
        line.close()


async def test_a_machine_that_is_cut_off_is_told(tmp_path: Path) -> None:
    def answer(_: dict[str, Any]) -> list[Any]:
        return ["cut"]

    async with qemu(tmp_path / "qmp", '{"QMP": {}}\n', answer):
        with pytest.raises(QmpError, match="gone"):
            await Qmp.monitor(tmp_path / "qmp")


# --- judgement -----------------------------------------------------------------------------------


def record(kind: str, number: int = 1, *, boot: str = "a", at_s: float = 0.0, **body: Any) -> dict[str, Any]:
    """A record's payload, as far as it is judged."""
    second = f"{int(at_s) // 60:02}:{int(at_s) % 60:02}.000000000"
    time = {"utc": f"2026-11-30T12:{second}Z", "boot": boot}
    return {"table": "r1", "chain": "c", "kind": kind, "round": number, "time": time, "body": body}


def result(number: int, pocket: str, counter: int, at_s: float, boot: str = "a") -> dict[str, Any]:
    evidence = {"game_ref": f"wheel/123/{counter:03}"}
    return record("result", number, boot=boot, at_s=at_s, outcome={"pocket": pocket}, evidence=evidence)


def game(counter: int, pocket: str, at_s: float) -> Played:
    return Played(counter, pocket, NOON_S + at_s, NOON_S + at_s + 3)


def test_a_record_that_was_heard_must_be_in_the_journal_byte_for_byte() -> None:
    assert judge.lost([b"one", b"two"], [b"two"]) == []
    assert len(judge.lost([b"one"], [b"one", b"One"])) == 1


def test_a_round_has_one_final_record() -> None:
    assert judge.doubled([result(1, "7", 1, 3), record("void", 2)]) == []
    assert judge.doubled([result(1, "7", 1, 3), record("void", 1)]) == ["r1 round 1 has 2 final records"]


def test_an_interrupted_round_must_be_unresolved() -> None:
    opened = record("round", 1)
    good = [opened, record("unresolved", 1, boot="b"), record("void", 1, boot="b")]
    assert len(judge.interrupted(good)) == 1
    assert judge.wrongly_ended(good) == []
    assert judge.wrongly_ended([opened, record("round", 2, boot="b")]) != []
    assert judge.wrongly_ended([opened, result(1, "7", 1, 30, boot="b")]) != []
    assert judge.wrongly_ended([*good[:2], result(1, "7", 1, 30, boot="b")]) != []


def test_a_round_of_this_boot_is_not_interrupted_yet() -> None:
    settled = [record("round", 1), result(1, "7", 1, 3)]
    assert judge.interrupted([*settled, record("round", 2, boot="b")]) == []


def test_a_result_is_what_the_wheel_played_at_that_time() -> None:
    played = {"r1": [game(5, "12", 0.0), game(5, "30", 600.0)]}
    assert judge.untrue([result(1, "12", 5, 3), result(2, "30", 5, 603)], played) == []
    assert judge.untrue([result(1, "30", 5, 3)], played) == ["r1 round 1: 30, but it fell into 12"]
    assert judge.untrue([result(1, "12", 6, 3)], played) == ["r1 round 1: 12, but no such game"]
    assert judge.untrue([result(1, "12", 5, 200)], played) == ["r1 round 1: 12, but no such game"]


def test_a_game_that_was_heard_is_in_some_record() -> None:
    played = {"r1": [game(1, "12", 0.0), game(2, "30", 10.0), game(3, "5", 100.0)]}
    told = [
        record("round", 1, at_s=0, game_ref="wheel/123/001"),
        record("gap", 0, at_s=14, games=["wheel/123/002"]),
    ]
    heard = [Window(NOON_S - 1, NOON_S + 60)]
    assert judge.unexplained(told, played, heard) == []
    assert judge.unexplained(told[:1], played, heard) == ["r1: game 2 (30) is in no record"]


def test_descriptors_have_the_lengths_that_they_tell() -> None:
    for listens, endpoints in ((True, 2), (False, 1)):
        data = descriptors(listens=listens)
        assert int.from_bytes(data[4:8], "little") == len(data) == 20 + 2 * (9 + 7 * endpoints)
    name = strings("Dice camera")
    assert int.from_bytes(name[4:8], "little") == len(name)
