"""A real wheel's traffic through the whole table: no number where none is proven, and every proven number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.wheel_lines import EUROPEAN, WHEEL, device_setup, table_setup

from dollyd.daemon.table.capture import Attempt, replay_plain
from dollyd.daemon.table.engine import Engine
from dollyd.drivers.framing import Frame, LineDecoder
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol

CAPTURES = Path(__file__).parent / "captures"
MORE = Path(__file__).resolve().parents[2] / "shared" / "captures"
"""Longer ones, where a checkout has them beside it."""
FILES = sorted({path.name: path for place in (MORE, CAPTURES) for path in place.glob("*.jsonl")}.values())
SETUP = table_setup()

NO_NUMBER = ("void", "unresolved")


def test_there_are_captures_of_a_real_wheel() -> None:
    assert len(FILES) >= 10


def verdicts(lines: Iterable[bytes]) -> list[Attempt]:
    engine = Engine(SETUP, {WHEEL: Ss2Protocol(device_setup(EUROPEAN))})
    return list(replay_plain(engine, WHEEL, lines))


@cache
def verdicts_of(path: Path) -> list[Attempt]:
    return verdicts(path.read_bytes().splitlines())


def expected_games(path: Path) -> list[dict[str, Any]]:
    games: list[dict[str, Any]] = json.loads(path.with_suffix(".expected.json").read_text())["games"]
    return games


def said_in(game: dict[str, Any], later: dict[str, Any] | None, said: list[Attempt]) -> list[Attempt]:
    """What was said of one attempt: its counter, between its beginning and that of the next attempt."""
    end = later["t_first"] if later else float("inf")
    # A verdict on the end of an attempt may come with the first line of the next one.
    return [a for a in said if a.game == game["game"] and game["t_first"] <= a.t <= end]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_capture_gives_its_numbers_and_no_other(path: Path) -> None:
    said = verdicts_of(path)
    games = expected_games(path)
    for game, later in zip_longest(games, games[1:]):
        attempt = said_in(game, later, said)
        numbers = [a.pocket for a in attempt if a.verdict == "result"]
        if game["outcome"] == "result":
            ends_at_first_five = game["n5"] < 2
            excused = game["joined_state"] is not None or ends_at_first_five
            assert numbers == [game["number"].strip()] or (excused and not numbers), game
        else:
            assert not numbers, game
        if game["outcome"] == "no-result":
            assert attempt, game
            assert {a.verdict for a in attempt} <= set(NO_NUMBER), game


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_capture_gives_no_number_twice(path: Path) -> None:
    results = Counter(a.game for a in verdicts_of(path) if a.verdict == "result")
    wanted = Counter(g["game"] for g in expected_games(path) if g["outcome"] == "result")
    assert results <= wanted


def in_chunks(path: Path, rng: Random) -> Iterator[bytes]:
    """The capture as bytes with CR LF, cut anywhere, through the decoder, and back to its lines.

    A line is heard at the time of its last chunk; time itself is not cut.
    """
    decoder = LineDecoder()
    for raw in path.read_bytes().splitlines():
        entry = json.loads(raw)
        if entry["dir"] != "rx":
            yield raw
            continue
        data = entry["line"].encode("latin-1") + b"\r\n"
        while data:
            size = rng.randint(1, len(data))
            chunk, data = data[:size], data[size:]
            for frame in decoder.feed(chunk):
                assert isinstance(frame, Frame)
                yield json.dumps(entry | {"line": frame.raw.decode("latin-1")}).encode()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_chunks_do_not_change_a_verdict(path: Path) -> None:
    assert verdicts(in_chunks(path, Random(path.stem))) == verdicts_of(path)
