"""The engine: same inputs same bytes, every decision derived again from its capture, everything bounded."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.support.nights import night
from tests.support.simulated import SETUP, protocols
from tests.support.tables import DICE, ODDS_BOX, PROVEN, START, WHEEL, game, game_setup, later, make_setup
from tests.support.tlp_lines import Speaker, setup_of
from tests.support.wheel_lines import Game

from dollyd.daemon.core import decision
from dollyd.daemon.core.events import (
    HOUSE_EVENTS,
    Approved,
    BetsClosed,
    ClockStepped,
    Confirmed,
    CorrectionProposed,
    DrawStarted,
    Event,
    GameStarted,
    HostIncident,
    Inspected,
    NoneImprisoned,
    Original,
    Permitted,
    PlayHalted,
    Reading,
    Restarted,
    ResultProposed,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.daemon.core.round import Phase, phase, step
from dollyd.daemon.core.state import Setup, Table
from dollyd.daemon.table import engine as engine_module
from dollyd.daemon.table.capture import rederive
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, house, line_of
from dollyd.drivers import DRIVERS
from dollyd.drivers.protocols.cammegh_ss2.driver import Ss2Protocol
from dollyd.drivers.spec import DeviceSetup
from dollyd.wire.record import Finding, Kind, Stakes

SEED = 11


def captured(records: list[NewRecord]) -> list[NewRecord]:
    return [record for record in records if record.capture]


# --- determinism and re-derivation -------------------------------------------------------------------------


def test_the_same_inputs_give_the_same_bytes() -> None:
    played = night(SEED).table
    again = Engine(SETUP, protocols())
    records = [record for item in played.inputs for record in again.feed(item).records]
    assert records == played.records
    assert len(records) > 500


def test_every_decision_of_a_night_is_derived_again_from_its_capture() -> None:
    decisions = captured(night(SEED).table.records)
    kinds = Counter(record.kind for record in decisions)
    assert min(kinds[kind] for kind in (Kind.RESULT, Kind.VOID, Kind.UNRESOLVED)) >= 10
    for record in decisions:
        again = captured(rederive(SETUP, protocols(), record.capture))
        assert again[-1] == record


def test_a_decision_and_only_a_decision_carries_its_capture() -> None:
    for record in night(SEED).table.records:
        decides = record.kind in (Kind.RESULT, Kind.VOID, Kind.UNRESOLVED)
        assert bool(record.capture) == decides
        if decides:
            seal = msgspec.json.decode(record.body)["evidence"]["capture"]
            assert seal["digest"] == hashlib.sha256(record.capture).hexdigest()
            assert seal["lines"] == len(record.capture.splitlines()) - 1


def test_a_capture_holds_what_was_sent_and_what_was_heard_of_its_round() -> None:
    result = next(r for r in night(SEED).table.records if r.kind is Kind.RESULT)
    lines = [msgspec.json.decode(line) for line in result.capture.splitlines()[1:]]
    said = {(line["dir"], line["dev"], line["line"][:6]) for line in lines}
    assert {("rx", WHEEL, "*X;3;0"), ("rx", WHEEL, "*X;5;0"), ("rx", ODDS_BOX, "$ODRES")} <= said
    assert ("tx", ODDS_BOX, "$HCDRW") in said
    assert any(line["dir"] == "draw" for line in lines)


def test_an_altered_frame_gives_another_decision() -> None:
    result = next(r for r in night(SEED).table.records if r.kind is Kind.RESULT)
    pocket = msgspec.json.decode(result.body)["outcome"]["pocket"]
    old = f"*X;5;001;{pocket.rjust(2)};".encode()
    assert old in result.capture
    again = rederive(SETUP, protocols(), result.capture.replace(old, b"*X;5;001;33;"))
    assert result.body not in [record.body for record in again]


# --- bounds -----------------------------------------------------------------------------------------------


def test_captures_of_a_night_are_bounded() -> None:
    # The longest round of this fast wheel waits for its draw to time out, with some noise on the line.
    assert night(SEED).table.most_lines < 5_000


def wheel_engine(setup: Setup, table: Table | None = None) -> Engine:
    return Engine(setup, {WHEEL: Ss2Protocol(DeviceSetup(WHEEL, "wheel", setup.layout.clockwise))}, table)


class Lines:
    """Feeds a wheel's lines, one every half second."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.at = START
        self.records: list[NewRecord] = []
        self.overflows = 0

    def feed(self, op: Op, text: str = "") -> None:
        self.take(Input(op, self.at, WHEEL, text))
        self.at = later(self.at, 500)

    def take(self, item: Input) -> None:
        output = self.engine.feed(item)
        self.records += output.records
        self.overflows += output.overflow

    def kinds(self) -> list[Kind]:
        return [record.kind for record in self.records if record.kind is not Kind.INCIDENT]


def opened(setup: Setup) -> Lines:
    lines = Lines(wheel_engine(setup))
    lines.take(house(TableOpened("d1"), START))
    lines.feed(Op.OPEN)
    lines.feed(Op.FRAME, "*X;6;017; 8;0;000;0")
    return lines


def test_a_round_without_end_is_given_up_as_unresolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "ROUND_LINES_MAX", 100)
    lines = opened(make_setup("A", confirm="dealer"))
    for text in Game().lines():
        lines.feed(Op.FRAME, text)
    assert phase(lines.engine.table) is Phase.AT_REST
    for _ in range(300):
        lines.feed(Op.FRAME, Game().lines("5")[-1])
    assert lines.kinds()[-1] is Kind.UNRESOLVED
    assert lines.overflows == 1
    unresolved = lines.records[-1]
    assert msgspec.json.decode(unresolved.body)["rule"] == "device-lost"
    assert len(unresolved.capture.splitlines()) == 101
    assert len(lines.engine._lines) <= 64


def test_a_round_that_is_given_up_is_derived_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "ROUND_LINES_MAX", 100)
    lines = opened(make_setup("A"))
    for text in [*Game().lines("2"), *Game(threes=200).lines("3")]:
        lines.feed(Op.FRAME, text)
    unresolved = lines.records[-1]
    assert unresolved.kind is Kind.UNRESOLVED
    assert lines.overflows == 1
    fresh = wheel_engine(make_setup("A"))
    assert captured(rederive(fresh.setup, fresh.protocols, unresolved.capture))[-1] == unresolved


def test_a_table_that_waits_for_players_all_night_plays_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "ROUND_LINES_MAX", 100)
    monkeypatch.setattr(engine_module, "WAITING_LINES_MAX", 50)
    lines = opened(make_setup("A"))
    for text in Game(twos=470).lines():
        lines.feed(Op.FRAME, text)
        assert len(lines.engine._lines) <= 64
    assert lines.overflows == 0
    assert lines.kinds() == [Kind.SESSION, Kind.ROUND, Kind.BETS_CLOSED, Kind.RESULT]
    result = lines.records[-1]
    assert b"*X;3;017;" in result.capture, "the whole draw is in it"
    # Derived again by a version that begins captures elsewhere.
    monkeypatch.setattr(engine_module, "WAITING_LINES_MAX", 5)
    fresh = wheel_engine(make_setup("A"))
    assert captured(rederive(fresh.setup, fresh.protocols, result.capture))[-1] == result


def test_the_longest_wait_of_a_real_wheel_is_kept_whole() -> None:
    lines = opened(make_setup("A"))
    for text in Game(twos=1_200).lines():
        lines.feed(Op.FRAME, text)
    assert len(lines.records[-1].capture.splitlines()) > 1_200


@pytest.mark.parametrize("state", ["closed", "waiting", "blocked"])
def test_the_capture_rolls_where_no_round_is_in_play(state: str) -> None:
    lines = opened(make_setup("A"))
    if state == "closed":
        lines.take(house(TableClosed("d1"), lines.at))
    if state == "blocked":
        for text in [*Game().lines("23"), "*X;5;017;23;0;170;0"]:
            lines.feed(Op.FRAME, text)
        assert phase(lines.engine.table) is Phase.BLOCKED
    for _ in range(500):
        lines.feed(Op.FRAME, "*X;6;017; 8;0;000;0")
        assert len(lines.engine._lines) <= 64


def test_a_void_after_a_long_block_has_a_short_capture_that_still_derives_it() -> None:
    lines = opened(make_setup("A"))
    for text in [*Game().lines("23"), "*X;5;017;23;0;170;0"]:
        lines.feed(Op.FRAME, text)
    for _ in range(500):
        lines.feed(Op.FRAME, "*X;6;017;23;0;000;0")
    lines.take(house(VoidDeclared("d1", "dealer", "cannot be known"), lines.at))
    void = lines.records[-1]
    assert void.kind is Kind.VOID
    assert len(void.capture.splitlines()) <= 65
    fresh = wheel_engine(make_setup("A"))
    assert captured(rederive(fresh.setup, fresh.protocols, void.capture))[-1] == void


# --- inputs ------------------------------------------------------------------------------------------------

ORIGINAL = Original(
    7,
    Finding(kind="result", outcome={"pocket": "17"}),
    decision.setting(make_setup("A")),
    "2026-11-29",
    Stakes(minimum=1, maximum=2, currency="EUR"),
    outcome_before={"pocket": "0", "zeros_in_a_row": 1},
)
HOUSE: list[Event] = [
    TableOpened("d1"),
    TableClosed("d1"),
    VoidDeclared("d1", "dealer", "öl på duken"),
    VoidDeclared("d1", "dealer", "meant for another", 7),
    Confirmed("d1"),
    BetsClosed("d1"),
    Permitted("d1"),
    ThrowRejected("d1", "dealer", "on the rail"),
    Seated("d1", ("1", "3")),
    ShooterDeclined("d1"),
    Inspected("d1"),
    TableOpened("d1", "dealer", {"level": "true"}),
    NoneImprisoned("p1", "pit-boss"),
    ResultProposed("d1", "dealer", "{}", "ab", 1, ("17",), "the sensor is dead"),
    CorrectionProposed("d1", "dealer", "{}", "ab", 1, (), "video", ORIGINAL),
    Approved("p1", "pit-boss", "{}", "ab"),
    ClockStepped(-5),
    Restarted("2026-11-29T18:41:20Z"),
    PlayHalted("disk-full"),
    HostIncident("captures-stopped", "the disk is nearly full"),
]


def test_every_house_event_has_its_case_here() -> None:
    assert {type(event) for event in HOUSE} == {
        *HOUSE_EVENTS,
        ClockStepped,
        Restarted,
        PlayHalted,
        HostIncident,
    }


@pytest.mark.parametrize("event", HOUSE, ids=lambda event: type(event).__name__)
def test_a_house_event_reaches_the_core_as_it_was(event: Event) -> None:
    setup = make_setup("A", confirm="dealer")
    table = Table()
    for one in (TableOpened("d1"), GameStarted(game()), DrawStarted(game())):
        table = step(setup, table, one, START)[0]
    expected, effects = step(setup, table, event, later(START, 1))
    engine = wheel_engine(setup, table)
    output = engine.feed(house(event, later(START, 1)))
    assert engine.table == expected
    assert len(output.records) == len(effects)


def test_a_frame_of_eight_bit_noise_goes_through_the_capture_unchanged() -> None:
    raw = bytes(range(256))
    item = Input(Op.BAD_FRAME, START, WHEEL, raw.decode("latin-1"))
    line = line_of(item)
    assert line.count(b"\n") == 1
    decoded: dict[str, Any] = msgspec.json.decode(line)
    assert decoded["line"].encode("latin-1") == raw
    assert line.splitlines() == [line[:-1]]


@pytest.mark.parametrize("op", [Op.OPEN, Op.LOST, Op.FRAME, Op.BAD_FRAME])
def test_a_device_that_the_table_has_not_changes_nothing(op: Op) -> None:
    engine = wheel_engine(make_setup("A"))
    before = engine.table
    output = engine.feed(Input(op, START, "nobody", "x"))
    assert (output.records, output.send, output.events) == ((), (), ())
    assert engine.table is before


def test_the_deadline_is_the_earliest_of_round_and_devices() -> None:
    setup = make_setup("A", hold_ms=700)
    table = Table()
    events = (TableOpened("d1"), GameStarted(game()), DrawStarted(game()), BetsClosed(WHEEL, game()))
    for event in (*events, Reading(game(), ("17",), PROVEN)):
        table = step(setup, table, event, START)[0]
    engine = wheel_engine(setup, table)
    assert engine.deadline_ns() == later(START, 700).mono_ns
    engine.feed(Input(Op.OPEN, START, WHEEL))
    engine.feed(Input(Op.FRAME, START, WHEEL, "*X;6;017; 8;0;000;0"))
    assert engine.deadline_ns() == later(START, 700).mono_ns
    engine.feed(Input(Op.TICK, later(START, 700)))
    stale_after = engine.deadline_ns()
    assert stale_after is not None
    assert stale_after > later(START, 700).mono_ns


def test_odds_are_wanted_once_a_round() -> None:
    draws = [item.text.split() for item in night(SEED).table.inputs if item.op is Op.DRAW]
    rounds = [int(number) for number, _ in draws]
    assert rounds == sorted(set(rounds))
    assert len({nonce for _, nonce in draws}) == len(draws)


# --- dice --------------------------------------------------------------------------------------------------

TUPLANOPPA = game_setup("tuplanoppa")


def dice_engine() -> Engine:
    camera = DRIVERS["tlp"].protocol(setup_of("DC", "tuplanoppa"))
    return Engine(TUPLANOPPA, {DICE: camera})


class Throws:
    """A table of Tuplanoppa by the sentence: the dealer closes the bets and permits, the camera tells."""

    def __init__(self) -> None:
        self.engine = dice_engine()
        self.camera = Speaker("DC")
        self.at = START
        self.records: list[NewRecord] = []
        self.house(TableOpened("d1"), Seated("d1", ("1", "3")))
        self.take(Input(Op.OPEN, self.at, DICE))
        self.say(self.camera.hello())
        self.state("6", "0000")

    def take(self, item: Input) -> None:
        self.records += self.engine.feed(item).records
        self.at = later(self.at, 100)

    def house(self, *events: Event) -> None:
        for event in events:
            self.take(house(event, self.at))

    def say(self, sentence: bytes) -> None:
        self.take(Input(Op.FRAME, self.at, DICE, sentence.decode("ascii").rstrip("\r\n")))

    def state(self, state: str, game_number: str) -> None:
        self.say(self.camera.say("STA", state, game_number, "2", "00"))

    def throw(self, game_number: str, faces: str, flags: str = "00") -> None:
        self.state("2", game_number)
        self.house(BetsClosed("d1"), Permitted("d1"))
        self.state("3", game_number)
        self.say(self.camera.say("RES", game_number, "2", *faces, "0.99", "0.98", flags, f"P{game_number}"))

    def kinds(self) -> list[Kind]:
        return [record.kind for record in self.records if record.kind is not Kind.INCIDENT]


def test_a_rejected_throw_and_the_result_after_it_come_from_one_round() -> None:
    table = Throws()
    table.throw("0001", "52", "01")
    table.throw("0002", "44")
    assert table.kinds() == [Kind.SESSION, Kind.ROUND, Kind.BETS_CLOSED, Kind.THROW_REJECTED, Kind.RESULT]
    rejected, result = captured(table.records)
    assert (rejected.round, result.round) == (1, 1)
    assert msgspec.json.decode(rejected.body)["rule"] == "cocked"
    assert msgspec.json.decode(result.body)["outcome"]["shooter"] == "1"


def test_a_rejected_throw_is_derived_again_from_its_capture_and_so_is_what_follows() -> None:
    table = Throws()
    table.throw("0001", "52")
    table.throw("0002", "16", "01")
    table.throw("0003", "11", "02")
    table.throw("0004", "66")
    decisions = captured(table.records)
    assert [record.kind for record in decisions] == [
        Kind.RESULT,
        Kind.THROW_REJECTED,
        Kind.THROW_REJECTED,
        Kind.RESULT,
    ]
    for record in decisions:
        fresh = dice_engine()
        assert captured(rederive(fresh.setup, fresh.protocols, record.capture))[-1] == record
    last = msgspec.json.decode(decisions[-1].body)
    assert last["outcome"]["shooter"] == "3", "the memory of the game went through the capture"


def test_dice_thrown_while_the_permission_is_not_given_are_rejected() -> None:
    table = Throws()
    table.state("2", "0001")
    table.house(BetsClosed("d1"))
    table.state("3", "0001")
    assert table.kinds()[-1] is Kind.THROW_REJECTED
    table.say(table.camera.say("RES", "0001", "2", "6", "6", "0.99", "0.98", "00", "P1"))
    assert Kind.RESULT not in table.kinds()
