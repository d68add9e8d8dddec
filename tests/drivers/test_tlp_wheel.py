"""A TLP/1 wheel: a `RES` is a reading only after its whole way was seen (tlp-1.md 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tlp_lines import PERIOD_MS, SILENCE_MS, Host, ref
from tests.support.tlp_speakers import WHEEL_GAME, Wheel, wheel_heard, wheel_host, whole_game

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    GameEnded,
    GameStarted,
    Reading,
    Spoken,
    TurnsBasis,
)
from dollyd.drivers.protocols.tlp.sentence import Sentence, build
from dollyd.drivers.spec import Status

# --- a game that goes well ---------------------------------------------------------------------------


def test_a_game_from_place_bets_to_the_number() -> None:
    told = wheel_heard(whole_game())
    game = ref("wheel", WHEEL_GAME)
    facts = DrawFacts(
        turns_basis=TurnsBasis.COUNTED,
        ball_turns_x100=500,
        ball_direction="counter-clockwise",
        wheel_direction="clockwise",
    )
    assert told.events == [
        DeviceReady("wheel", told.protocol.identity),
        GameStarted(game),
        DrawStarted(game),
        BetsClosed("wheel", game),
        Reading(game, ("28",), facts),
    ]
    assert told.acks == [(10, WHEEL_GAME)]
    assert [one.message for one in told.sent] == ["QRY", "ACK"]


def test_the_turns_of_the_rotor_are_counted_from_the_launch_on() -> None:
    wheel = Wheel()
    lines = [
        *(*wheel.before(), wheel.sta(2), *wheel.laps(9, what="REV"), wheel.sta(2)),
        *(wheel.sta(3), *wheel.laps(4, what="REV"), *wheel.laps(5), wheel.sta(4), wheel.res()),
    ]
    (reading,) = wheel_heard(lines).of(Reading)
    assert (reading.facts.wheel_turns_x100, reading.facts.ball_turns_x100) == (400, 500)


def test_a_wheel_that_tells_no_events_has_reported_turns() -> None:
    wheel = Wheel()
    (reading,) = wheel_heard([*wheel.before(), *wheel.draw(laps=0), wheel.res(laps="12")]).of(Reading)
    assert (reading.facts.turns_basis, reading.facts.ball_turns_x100) == (TurnsBasis.REPORTED, 1_200)


def test_a_wheel_that_counts_nothing_proves_no_turns() -> None:
    wheel = Wheel()
    (reading,) = wheel_heard([*wheel.before(), *wheel.draw(laps=0), wheel.res(laps="")]).of(Reading)
    assert (reading.facts.turns_basis, reading.facts.ball_turns_x100) == (TurnsBasis.NONE, None)


def test_a_boule_bowl_tells_number_and_cup_and_need_not_turn() -> None:
    wheel = Wheel("BOULE")
    lines = [
        *wheel.before(),
        wheel.sta(2),
        wheel.sta(3),
        wheel.sta(4, rpm="0"),
        wheel.res("7", "", "00", WHEEL_GAME, "24"),
    ]
    assert wheel_heard(lines, "boule").values == [("7", "24")]


@pytest.mark.parametrize(
    ("number", "cup", "defect"),
    [
        ("7", "", Defect.UNREAD),
        ("", "24", Defect.UNREAD),
        ("9", "24", Defect.WITNESSES_DISAGREE),
        ("10", "24", Defect.NOT_ON_WHEEL),
        ("7", "36", Defect.NOT_ON_WHEEL),
    ],
)
def test_39_a_boule_number_that_does_not_fit_its_cup(number: str, cup: str, defect: Defect) -> None:
    wheel = Wheel("BOULE")
    told = wheel_heard(
        [*wheel.before(), *wheel.draw(), wheel.res(number, "5", "00", WHEEL_GAME, cup)], "boule"
    )
    assert (told.values, told.defects) == ([], (defect,))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 40), max_size=60))
def test_2_3_7_20_any_chunking_gives_the_same_events(sizes: list[int]) -> None:
    data, told = b"".join(whole_game()), wheel_host()
    for size in sizes:
        told.bytes(data[:size])
        data = data[size:]
    assert told.bytes(data).events == wheel_host().bytes(b"".join(whole_game())).events


# --- what makes no number ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "defect"),
    [
        ("37", Defect.NOT_ON_WHEEL),
        ("00", Defect.NOT_ON_WHEEL),
        ("028", Defect.NOT_ON_WHEEL),
        ("", Defect.UNREAD),
    ],
)
def test_33_39_a_number_that_is_not_on_the_wheel(number: str, defect: Defect) -> None:
    told = wheel_heard(whole_game(number=number))
    assert (told.values, told.defects) == ([], (defect,))


@pytest.mark.parametrize("flags", ["", "zz", "0x", "12345"])
def test_flags_that_cannot_be_read_spoil_the_number(flags: str) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.res(flags=flags)])
    assert (told.values, told.defects) == ([], (Defect.UNREAD,))


@pytest.mark.parametrize(
    "way",
    [(2, 4), (2, 5), (2, 3, 5), (2, 4, 3, 4), (2, 3, 4, 3), (2, 3)],
    ids=lambda way: "-".join(map(str, way)),
)
def test_36_a_step_that_was_not_seen_spoils_the_number(way: Sequence[int]) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *(wheel.sta(state) for state in way), wheel.res()])
    assert told.values == []
    assert Defect.ILLEGAL_TRANSITION in told.defects


@pytest.mark.parametrize(
    ("place", "defect"), [(3, Defect.DATA_GAP), (10, Defect.DATA_GAP), (9, Defect.DATA_GAP)]
)
def test_15_silence_inside_the_draw_is_a_gap(place: int, defect: Defect) -> None:
    lines = whole_game()
    told = wheel_host().hear(*lines[:place], ms=10).quiet(SILENCE_MS + 2).hear(*lines[place:], ms=10)
    assert (told.values, told.defects) == ([], (defect,))


def test_43_a_long_wait_for_the_launch_is_no_gap() -> None:
    wheel = Wheel()
    told = wheel_host().hear(*wheel.before())
    for _ in range(600):
        told.hear(wheel.sta(2), ms=PERIOD_MS)
    told.quiet(4 * PERIOD_MS + 1).hear(wheel.sta(2), wheel.sta(3), wheel.sta(4), wheel.res(), ms=100)
    assert told.values == [("28",)]


def test_a_game_given_up_is_told_without_a_doubt() -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), wheel.sta(6)])
    (ended,) = told.of(GameEnded)
    assert (ended.game, ended.ending, ended.facts.defects) == (ref("wheel", WHEEL_GAME), Ending.SHUT_DOWN, ())


@pytest.mark.parametrize(
    ("after", "ending", "defect"),
    [
        (lambda w: [w.sta(2, "0413")], Ending.SUPERSEDED, Defect.ILLEGAL_TRANSITION),
        (lambda w: [w.sta(1)], Ending.SUPERSEDED, Defect.ILLEGAL_TRANSITION),
        (lambda w: [w.sta(5), w.sta(2, "0413")], Ending.SUPERSEDED, Defect.UNCONFIRMED),
        (lambda w: [w.sta(5), w.sta(6)], Ending.SHUT_DOWN, Defect.UNCONFIRMED),
    ],
)
def test_a_game_without_a_result(after: Any, ending: Ending, defect: Defect) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), *wheel.draw(), *after(wheel)])
    (ended,) = told.of(GameEnded)
    assert (ended.ending, ended.facts.defects) == (ending, (defect,))


@pytest.mark.parametrize("state", [2, 3, 4, 5])
def test_42_a_game_that_was_under_way_is_joined_and_gives_no_number(state: int) -> None:
    wheel = Wheel()
    told = wheel_heard([wheel.hello(), *(wheel.sta(one) for one in range(state, 6)), wheel.res()])
    assert told.of(GameStarted) == [GameStarted(ref("wheel", WHEEL_GAME), joined=True)]
    assert told.of(DrawStarted, BetsClosed, DrawUpdate, Reading, GameEnded) == []
    assert len(told.acks) == 1
    assert told.protocol.counters["result-unseen"] == 1
    assert told.hear(*wheel.draw("0413"), wheel.res(game="0413"), ms=100).values == [("28",)]


@pytest.mark.parametrize("state", [1, 6])
def test_42_a_wheel_between_games_joins_the_next_one(state: int) -> None:
    wheel = Wheel()
    told = wheel_heard([wheel.hello(), wheel.sta(state), *wheel.draw(), wheel.res()])
    assert told.values == [("28",)]


def test_a_game_before_the_wheel_said_who_it_is_gives_no_number() -> None:
    wheel = Wheel()
    told = wheel_heard([wheel.sta(1), *wheel.draw(), wheel.res()])
    assert told.of(GameStarted) == [GameStarted(ref("wheel", WHEEL_GAME), joined=True)]
    assert (told.values, told.acks) == ([], [])
    assert len(told.said("QRY")) > 1


# --- who it is and whether it lives ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "serial", "key"), [("BALL", "SN1", "kind"), ("BOULE", "SN1", "kind"), ("WHEEL", "SN2", "serial")]
)
def test_29_another_device_is_wrong_and_its_games_do_not_count(kind: str, serial: str, key: str) -> None:
    wheel, told = Wheel(kind), wheel_host(expect={"serial": "SN1"})
    told.hear(wheel.hello(serial), wheel.sta(1), *wheel.draw(), wheel.res(), ms=100)
    assert told.protocol.status is Status.WRONG_DEVICE
    assert told.of(DeviceTrouble)[0].cause.startswith(key)
    assert (told.values, told.acks) == ([], [])
    assert told.hear(wheel.sta(1, flags="04"), wheel.sta(1)).protocol.status is Status.WRONG_DEVICE


def test_25_a_device_swapped_in_mid_game_spoils_it() -> None:
    wheel, told = Wheel(), wheel_host(expect={"serial": "SN1"})
    told.hear(*wheel.before(), *wheel.draw(), wheel.hello("SN2"), wheel.hello("SN1"), wheel.res(), ms=100)
    assert (told.values, told.defects[0]) == ([], Defect.WRONG_DEVICE)


def test_15_a_silent_wheel_is_stale_and_ready_again() -> None:
    wheel = Wheel()
    told = wheel_heard(wheel.before()).quiet(3 * PERIOD_MS)
    assert told.protocol.status is Status.READY
    assert told.quiet(2).protocol.status is Status.STALE
    assert told.hear(wheel.sta(1)).protocol.status is Status.READY
    assert [event.status for event in told.of(DeviceTrouble)] == ["stale"]


def test_23_a_wheel_lost_in_mid_game_leaves_no_number() -> None:
    told = wheel_heard(whole_game()[:-1]).lose()
    (ended,) = told.of(GameEnded)
    assert (ended.ending, ended.facts.defects) == (Ending.LOST, (Defect.DEVICE_LOST,))
    assert told.protocol.deadline_ns() is None
    assert told.protocol.status is Status.LOST


def test_14_own_echo_and_other_talkers_are_not_the_wheel() -> None:
    told = wheel_heard(Wheel().before())
    told.hear(
        build(Sentence("HC", "ACK", 7, (WHEEL_GAME,))), build(Sentence("DC", "RES", 7, (WHEEL_GAME, "28")))
    )
    assert told.protocol.counters["other-talker"] == 2
    assert told.acks == []


def test_29_a_device_that_speaks_for_another_kind_is_asked_and_refused() -> None:
    told = wheel_heard([build(Sentence("CN", "STA", 3, ("", "00")))])
    assert [sentence.message for sentence in told.sent] == ["QRY", "QRY"]
    told.hear(build(Sentence("CN", "HEL", 4, ("1", "CONSOLE", "ACME", "CN7", "CN1", "1.0", "B1"))))
    assert told.protocol.status is Status.WRONG_DEVICE
    told.hear(build(Sentence("CN", "HEL", 5, ("1", "WHEEL", "ACME", "CN7", "CN1", "1.0", "B1"))))
    assert told.protocol.status is Status.WRONG_DEVICE


@pytest.mark.parametrize(
    "fields",
    [
        ("7", WHEEL_GAME),
        ("", WHEEL_GAME),
        ("2", "412"),
        ("2", ""),
        ("x", WHEEL_GAME),
        ("2", WHEEL_GAME, "", "", "", "", "g"),
    ],
)
def test_a_state_that_cannot_be_read_changes_nothing(fields: tuple[str, ...]) -> None:
    wheel = Wheel()
    told = wheel_heard([*wheel.before(), wheel.say("STA", *fields)])
    assert told.of(GameStarted) == []
    assert told.protocol.counters["unknown-state"] == 1


# --- anything ----------------------------------------------------------------------------------------

NOISE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\r\n", b"$", b"$WHRES,10,0412,29,160,0,5,00*0000\r\n", b"AT\r\n", b"\x00\xff\n"]),
)


@settings(deadline=None)
@given(st.data())
def test_9_noise_between_sentences_makes_no_outcome(draw: st.DataObject) -> None:
    told = wheel_host()
    for line in whole_game():
        told.bytes(draw.draw(NOISE)).bytes(line)
        told.quiet(draw.draw(st.sampled_from([0, 100])))
    assert told.values in ([], [("28",)])


def act(wheel: Wheel) -> st.SearchStrategy[Any]:
    """What a wheel may do, in any order, in any state."""
    games = st.sampled_from(["0411", "0412", "0413"])
    flags = st.sampled_from(["00", "00", "00", "01", "08", "10", "04", ""])
    return st.one_of(
        st.builds(lambda s, g, f: ("sta", (s, g, f)), st.integers(1, 6), games, flags),
        st.builds(lambda g: ("lap", (g,)), games),
        st.builds(lambda g: ("draw", (g,)), games),
        st.builds(lambda n, g, f: ("res", (n, g, f)), st.sampled_from(["28", "3", ""]), games, flags),
        st.sampled_from(
            [("again", ()), ("skip", ()), ("hello", ()), ("reboot", ()), ("lose", ()), ("open", ())]
        ),
        st.builds(lambda ms: ("quiet", (ms,)), st.sampled_from([1, 500, 1_501, 2_001, 60_000])),
    )


def perform(told: Host, wheel: Wheel, what: str, args: tuple[Any, ...], last: list[bytes]) -> None:
    match what:
        case "sta":
            state, game, flags = args
            last[:] = [wheel.sta(state, game, flags)]
        case "lap":
            last[:] = wheel.laps(1, *args)
        case "draw":
            told.hear(*wheel.draw(*args))
            return
        case "res":
            number, game, flags = args
            last[:] = [wheel.res(number, "", flags, game)]
        case "skip":
            wheel.seq = (wheel.seq + 1) % 65_536
            return
        case "hello":
            last[:] = [wheel.hello()]
        case "reboot":
            last[:] = [wheel.reboot(f"B{wheel.seq}")]
        case "lose":
            told.lose()
            return
        case "open":
            told.open()
            return
        case "quiet":
            told.quiet(*args)
            return
    told.hear(*last)


def whole(events: Sequence[Spoken]) -> None:
    """At most one reading a game, and only after its way was told; nothing more of it afterwards."""
    way: dict[str, list[str]] = {}
    for event in events:
        game = getattr(event, "game", None)
        if game is not None and not isinstance(event, DrawUpdate):
            joined = isinstance(event, GameStarted) and event.joined
            way.setdefault(str(game), []).append("Joined" if joined else type(event).__name__)
    for steps in way.values():
        if "Reading" in steps:
            read = steps.index("Reading")
            began = max(place for place, step in enumerate(steps[:read]) if step == "GameStarted")
            assert steps[began : read + 1] == ["GameStarted", "DrawStarted", "BetsClosed", "Reading"]
            # Heard again after a reconnect under the number that it had: no number comes of that.
            assert set(steps[read + 1 :]) <= {"ReadingContradicted", "Joined"}


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_whatever_comes_a_number_has_its_whole_way_and_a_state_survives_json(draw: st.DataObject) -> None:
    wheel, told, last = Wheel(), wheel_host().hear(Wheel().hello()), [b""]
    twin = wheel_host().hear(Wheel().hello())
    wheel.seq = 1
    for what, args in draw.draw(st.lists(act(wheel), max_size=40)):
        seq, boot = wheel.seq, wheel.boot
        perform(told, wheel, what, args, last)
        wheel.seq, wheel.boot = seq, boot
        perform(twin.through_json(), wheel, what, args, last)
    assert twin.events == told.events
    assert twin.sent == told.sent
    whole(told.events)
