"""Captures of ours and plain ones through the engine; broken files are refused with their place."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest
from tests.support.nights import night
from tests.support.simulated import SETUP, protocols
from tests.support.tables import DICE, WHEEL, game_setup, make_setup
from tests.support.tlp_lines import Speaker, setup_of
from tests.support.wheel_lines import Game

from dollyd.daemon.table.capture import Attempt, CaptureError, rederive, replay_plain
from dollyd.daemon.table.engine import Engine
from dollyd.drivers import DRIVERS
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol
from dollyd.drivers.spec import DeviceSetup
from dollyd.wire.record import Kind

SEED = 11
CLOSED = "*X;6;017; 8;0;000;0"


def capture() -> bytes:
    """The capture of a result."""
    return next(record for record in night(SEED).table.records if record.kind is Kind.RESULT).capture


def plain(lines: list[str], period_s: float = 0.5) -> list[bytes]:
    return [
        msgspec.json.encode({"t": number * period_s, "dir": "rx", "line": line})
        for number, line in enumerate(lines)
    ]


def replayed(lines: list[bytes]) -> list[Attempt]:
    setup = make_setup("A")
    wheel = Ss2Protocol(DeviceSetup(WHEEL, "wheel", setup.layout.clockwise))
    return list(replay_plain(Engine(setup, {WHEEL: wheel}), WHEEL, lines))


# --- captures of ours -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b'{"capture":1', b'{"capture":2', id="version-not-known"),
        pytest.param(b'{"capture":1', b"[1", id="head-is-no-object"),
        pytest.param(b'"devices":{"wheel"', b'"devices":{"dice"', id="device-not-known"),
        pytest.param(b'"dir":"rx"', b'"dir":"ry"', id="direction-not-known"),
        pytest.param(b'"t_ns":', b'"t":', id="no-time"),
        pytest.param(
            b'"dir":"draw","dev":"odds","line":"1 ', b'"dir":"draw","dev":"odds","line":"x ', id="no-round"
        ),
        pytest.param(b'"line":"', b'"line":"\\u1234', id="not-latin-1"),
    ],
)
def test_a_broken_capture_is_refused(old: bytes, new: bytes) -> None:
    good = capture()
    assert old in good
    with pytest.raises(CaptureError):
        rederive(SETUP, protocols(), good.replace(old, new))


def test_an_empty_capture_is_refused() -> None:
    with pytest.raises(CaptureError):
        rederive(SETUP, protocols(), b"")


def test_a_capture_that_is_cut_short_is_refused_or_decides_nothing() -> None:
    good = capture()
    lines = good.splitlines(keepends=True)
    decided = rederive(SETUP, protocols(), b"".join(lines[:-1]))
    assert Kind.RESULT not in [record.kind for record in decided]
    with pytest.raises(CaptureError):
        rederive(SETUP, protocols(), good[:-10])


def test_a_capture_under_other_rules_is_another_decision() -> None:
    quarters = make_setup("B", quarters=True, odds_timeout_ms=1_000, draw_timeout_ms=12_000)
    before = rederive(SETUP, protocols(), capture())[-1]
    after = rederive(quarters, protocols(quarters), capture())[-1]
    assert before.kind is after.kind is Kind.RESULT
    assert before.body != after.body


# --- plain captures --------------------------------------------------------------------------------------


def test_a_plain_capture_gives_one_attempt_a_game() -> None:
    first, second = Game(17, "23"), Game(18, "0", before="23")
    attempts = replayed(plain([CLOSED, *first.lines(), *second.lines(), "*X;2;019; 0;0;170;0"]))
    said = [(attempt.game, attempt.verdict, attempt.pocket, attempt.reason) for attempt in attempts]
    assert said == [
        ("017", "result", "23", None),
        ("018", "result", "0", None),
        ("019", "unresolved", None, "capture-ended"),
    ]


def test_a_game_that_was_joined_is_told_and_has_no_number() -> None:
    attempts = replayed(plain(Game(17, "23").lines("45")))
    assert [(a.game, a.verdict, a.pocket, a.reason) for a in attempts] == [
        ("017", "unresolved", None, "joined-mid-game")
    ]


def test_time_passes_between_the_lines_of_a_plain_capture() -> None:
    lines = plain([CLOSED, *Game(17, "23").lines("23")])
    late = msgspec.json.encode({"t": 300.0, "dir": "rx", "line": "*X;5;017;23;0;170;0"})
    (attempt,) = replayed([*lines, late])
    assert (attempt.verdict, attempt.reason) == ("unresolved", "data-gap")
    assert attempt.t < 10


def test_play_goes_on_after_an_unresolved_game() -> None:
    lines = [*Game(17, "23", fours=0).lines(), *Game(18, "5", before="23").lines(), "*X;2;019; 5;0;170;0"]
    attempts = replayed(plain([CLOSED, *lines]))
    assert [(a.game, a.verdict, a.pocket) for a in attempts][:2] == [
        ("017", "unresolved", None),
        ("018", "result", "5"),
    ]


def test_what_the_host_sent_is_not_heard() -> None:
    lines = plain([CLOSED, *Game(17, "23").lines()])
    sent = msgspec.json.encode({"t": 0.1, "dir": "tx", "line": "*X;5;017; 1;0;170;0"})
    assert [a.pocket for a in replayed([lines[0], sent, *lines[1:]])] == ["23"]


def test_a_line_with_a_character_that_no_port_can_bring_is_noise() -> None:
    lines = [CLOSED, *Game(17, "23").lines(), "*X;6;017;23;0;000;0 \u2192"]
    assert [attempt.pocket for attempt in replayed(plain(lines))] == ["23"]


@pytest.mark.parametrize("line", [b"", b"{", b'{"t":"soon","dir":"rx","line":""}', b'{"dir":"rx","line":""}'])
def test_a_broken_line_is_named_by_its_number(line: bytes) -> None:
    with pytest.raises(CaptureError, match="line 2"):
        replayed([*plain([CLOSED]), line])


def test_the_reading_of_a_game_with_more_than_one_text_is_told_whole() -> None:
    setup = game_setup("boule")
    wheel = DRIVERS["tlp"].protocol(setup_of("WH", "boule"))
    said = Speaker("WH", "BOULE")
    hello = said.hello()
    states = [said.say("STA", state, "0001", "", "172", "0", "0", "00") for state in "622344"]
    result = said.say("RES", "0001", "7", "172", "0", "14", "00", "6")
    lines = [line.decode("ascii").rstrip() for line in (hello, *states, result)]
    attempts = list(replay_plain(Engine(setup, {WHEEL: wheel}), WHEEL, plain(lines)))
    assert [(a.verdict, a.pocket) for a in attempts] == [("result", "7 6")]


def test_a_rejected_throw_is_an_attempt_of_its_own() -> None:
    setup = game_setup("sic-bo")
    camera, said = DRIVERS["tlp"].protocol(setup_of("DC", "sic-bo")), Speaker("DC")
    hello = said.hello()
    states = [said.say("STA", state, "0001", "3", "00") for state in "623"]
    result = said.say("RES", "0001", "3", *"215", "0.99", "0.99", "0.99", "01", "A1")
    lines = [line.decode("ascii").rstrip() for line in (hello, *states, result)]
    attempts = list(replay_plain(Engine(setup, {DICE: camera}), DICE, plain(lines)))
    assert [(a.game, a.verdict, a.reason) for a in attempts][:1] == [("0001", "throw-rejected", "cocked")]


def test_a_head_that_an_older_version_wrote_in_other_words_seals_the_same_capture() -> None:
    head, _, lines = capture().partition(b"\n")
    state = msgspec.json.decode(head)
    del state["devices"]["wheel"]["damage"]  # a field that it had not yet
    older = msgspec.json.encode(state) + b"\n" + lines
    decision = [record for record in rederive(SETUP, protocols(), older) if record.capture][-1]
    assert decision.capture == older
    assert msgspec.json.decode(decision.body)["evidence"]["capture"]["digest"] == sha256(older).hexdigest()
