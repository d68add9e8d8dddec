"""The odds box: only an authentic answer to this very request draws a table (device document, part 3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.odds_lines import HELLO, KEY, PERIOD_MS, SERIAL, Host, answer, proof, sentence

from dollyd.daemon.core.events import DeviceReady, DeviceTrouble, OddsDrawn
from dollyd.drivers.framing import BadFrame
from dollyd.drivers.protocols.odds_monitor import ONES_IN_A_ROW_MAX, TWOS_IN_A_ROW_MAX
from dollyd.drivers.protocols.tlp.driver import protocol
from dollyd.drivers.protocols.tlp.odds_box import mac
from dollyd.drivers.spec import DeviceSetup, Status
from dollyd.wire.stamp import Stamp

NONCE = "9C0D4E7A11B2F00D"
OTHER_NONCE = "0000000000000001"
STA = sentence("STA", 5, "1", "0412", "00")


def asked() -> Host:
    return Host().open_ready().ask(412, NONCE)


def statuses(host: Host) -> list[str]:
    return [str(event.status) for event in host.of(DeviceTrouble)]


# --- a draw that goes well ---------------------------------------------------------------------------


def test_a_draw_from_question_to_answer() -> None:
    host = asked().hear(answer("0412", "2", 18231, NONCE))
    (request,) = host.said("DRW")
    assert (request.talker, request.fields) == ("HC", ("0412", NONCE))
    assert host.of(OddsDrawn) == [
        OddsDrawn("odds", 412, 2, 18231, NONCE, proof("0412", "2", "000018231", NONCE))
    ]
    (ack,) = host.said("ACK")
    assert (ack.seq, ack.fields) == (9, ("0412",))
    assert host.causes == []


def test_the_proof_is_the_documented_one() -> None:
    assert mac(KEY, SERIAL, "0412", "1", "000018231", NONCE) == proof("0412", "1", "000018231", NONCE)
    assert len(mac(KEY, SERIAL, "0412", "1", "000018231", NONCE)) == 16


def test_the_request_is_repeated_unchanged_until_it_is_answered() -> None:
    host = asked()
    for _ in range(3):
        host.quiet(PERIOD_MS).hear(STA)
    host.quiet(1)
    assert len(host.said("DRW")) == 4
    assert len(set(host.said("DRW"))) == 1
    host.hear(answer("0412", "1", 1, NONCE)).quiet(10 * PERIOD_MS)
    assert len(host.said("DRW")) == 4


def test_a_repeated_answer_is_acknowledged_and_counts_once() -> None:
    host = asked().hear(*[answer("0412", "1", 1, NONCE)] * 4)
    assert host.tables == [1]
    assert len(host.said("ACK")) == 4
    assert host.causes == []


def test_each_request_has_its_own_sequence_number() -> None:
    host = Host().open_ready().draw(1, "1", 1).draw(2, "1", 2)
    assert len({one.seq for one in host.sent if one.message != "ACK"}) == 3


def test_a_round_above_9999_is_asked_by_its_last_four_digits() -> None:
    host = Host().open_ready().draw(120_412, "1", 1)
    assert host.said("DRW")[0].fields[0] == "0412"
    assert host.of(OddsDrawn)[0].round == 120_412


# --- 53: answers that do not count -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (answer("0412", "1", 1, OTHER_NONCE), "wrong-nonce"),
        (answer("0412", "1", 1, NONCE, mac="0" * 16), "bad-mac"),
        (answer("0412", "1", 1, NONCE, mac=proof("0412", "1", "000000001", NONCE).lower()), "bad-mac"),
        (answer("0412", "1", 1, NONCE, mac=proof("0412", "1", "000000001", NONCE)[:15]), "bad-mac"),
        (answer("0412", "2", 1, NONCE, mac=proof("0412", "1", "000000001", NONCE)), "bad-mac"),
        (answer("0412", "1", 2, NONCE, mac=proof("0412", "1", "000000001", NONCE)), "bad-mac"),
        (answer("0412", "1", 1, NONCE, mac=proof("0412", "1", "000000001", NONCE, key=b"other")), "bad-mac"),
        (answer("0412", "1", 1, NONCE, mac=proof("0412", "1", "000000001", NONCE, serial="X")), "bad-mac"),
        (answer("0412", "0", 1, NONCE), "table-not-1-or-2"),
        (answer("0412", "3", 1, NONCE), "table-not-1-or-2"),
        (answer("0412", "", 1, NONCE), "table-not-1-or-2"),
        (answer("0412", "01", 1, NONCE), "table-not-1-or-2"),
        (answer("0412", "1", "x", NONCE), "counter-gap"),
        (answer("0412", "1", "-1", NONCE), "counter-gap"),
        (sentence("RES", 9, "0412", "1"), "short-answer"),
        (sentence("RES", 9, "0412", "1", "000000001", NONCE), "short-answer"),
    ],
)
def test_an_answer_that_does_not_count_fails_the_draw(line: bytes, cause: str) -> None:
    host = asked().hear(line)
    assert host.tables == []
    assert host.causes == [cause]
    assert host.hear(answer("0412", "1", 1, NONCE)).tables == [], "nothing mends a failed draw"


@pytest.mark.parametrize(
    "line",
    [
        answer("0411", "1", 1, NONCE),
        sentence("RES", 9),
        answer("0412", "1", 1, NONCE)[:-1] + b"!",
        answer("0412", "1", 1, NONCE)[1:],
        answer("0412", "1", 1, NONCE).replace(b"OD", b"WH"),
        sentence("RES", 9, "0412", "1", "000000001", NONCE, "X" * 16, talker="WH"),
        b"",
    ],
)
def test_what_is_no_answer_to_this_game_leaves_the_draw_open(line: bytes) -> None:
    host = asked().hear(line)
    assert host.causes == []
    assert host.hear(answer("0412", "1", 1, NONCE)).tables == [1]


def test_an_answer_that_nobody_asked_for_is_acknowledged_and_ignored() -> None:
    host = Host().open_ready().hear(answer("0412", "1", 1, NONCE))
    assert host.events == host.of(DeviceReady)
    assert len(host.said("ACK")) == 1


def test_two_different_answers_fail_the_round_that_had_one() -> None:
    host = asked().hear(answer("0412", "1", 1, NONCE), answer("0412", "2", 1, NONCE))
    assert host.tables == [1]
    assert host.causes == ["two-answers"]


def test_a_late_answer_to_an_earlier_round_is_not_one_to_this_round() -> None:
    host = asked().ask(413, OTHER_NONCE)
    assert host.causes == ["superseded"]
    host.hear(answer("0412", "2", 1, NONCE))
    assert host.tables == []
    assert host.hear(answer("0413", "1", 2, OTHER_NONCE)).tables == [1]


def test_no_answer_is_asked_for_at_a_steady_pace_and_never_made_up() -> None:
    host = asked()
    for _ in range(20):
        host.quiet(PERIOD_MS).hear(STA)
    assert host.tables == []
    assert len(host.said("DRW")) <= 21


# --- the draw counter --------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(5, 7), (5, 5), (5, 4), (5, 0), (999_999_999, 1)])
def test_a_counter_that_does_not_go_up_by_one_fails_the_draw(first: int, second: int) -> None:
    host = Host().open_ready().draw(1, "1", first).draw(2, "1", second)
    assert host.tables == [1]
    assert host.causes == ["counter-gap"]


def test_after_a_gap_the_counter_goes_on_from_there() -> None:
    host = Host().open_ready().draw(1, "1", 5).draw(2, "1", 9).draw(3, "1", 10).draw(4, "1", 12)
    assert host.tables == [1, 1]
    assert host.causes == ["counter-gap", "counter-gap"]


@pytest.mark.parametrize(("counter", "counts"), [(6, True), (7, True), (8, False)])
def test_a_draw_without_an_answer_may_have_counted_or_not(counter: int, counts: bool) -> None:
    host = Host().open_ready().draw(1, "1", 5).ask(2, NONCE).draw(3, "2", counter)
    assert host.tables == [1, 2] if counts else host.tables == [1]


def test_the_next_answer_ends_the_doubt_about_the_counter() -> None:
    host = Host().open_ready().draw(1, "1", 5).ask(2, NONCE).draw(3, "2", 6).draw(4, "1", 8)
    assert host.tables == [1, 2]
    assert host.causes == ["superseded", "counter-gap"]


def test_the_counter_is_remembered_over_a_reconnect() -> None:
    host = Host().open_ready().draw(1, "1", 5).lose().open_ready().draw(2, "1", 7)
    assert host.tables == [1]
    assert host.causes == ["counter-gap"]


# --- the generator -----------------------------------------------------------------------------------


def test_a_generator_stuck_on_table_2_is_out_of_order() -> None:
    host = Host().open_ready()
    for number in range(1, TWOS_IN_A_ROW_MAX + 1):
        host.draw(number, "2", number)
    assert host.tables == [2] * (TWOS_IN_A_ROW_MAX - 1)
    assert host.causes == ["stuck"]
    assert host.protocol.status is Status.FAULT
    assert host.draw(99, "1", 99).causes[-1] == "box is stuck"


def test_a_generator_stuck_on_table_1_is_out_of_order() -> None:
    host = Host().open_ready()
    for number in range(1, ONES_IN_A_ROW_MAX + 1):
        host.draw(number, "1", number)
    assert host.tables == [1] * (ONES_IN_A_ROW_MAX - 1)
    assert host.protocol.status is Status.FAULT


def test_another_table_begins_a_new_run() -> None:
    host = Host().open_ready()
    for number, table in enumerate(("2222" + "1") * 4, start=1):
        host.draw(number, table, number)
    assert host.causes == []


@pytest.mark.parametrize(
    ("mask", "cause"),
    [
        ("01", "health-test-failed"),
        ("02", "self-test-failed"),
        ("04", "tampered"),
        ("zz", "self-test-failed"),
    ],
)
def test_a_fault_of_the_box_fails_the_draw_and_all_that_follow(mask: str, cause: str) -> None:
    host = asked().hear(sentence("FLT", 7, "0412", mask, "TEXT"))
    assert host.causes == [cause]
    assert host.protocol.status is Status.FAULT
    assert host.hear(answer("0412", "1", 1, NONCE)).tables == []
    assert host.draw(413, "1", 2).causes[-1] == f"box is {cause}"
    assert host.tables == []


@pytest.mark.parametrize("mask", ["00", "08", "10", "18"])
def test_no_draw_yet_and_a_doubled_request_are_no_faults(mask: str) -> None:
    host = asked().hear(sentence("FLT", 7, "0412", mask, "TEXT"), answer("0412", "1", 1, NONCE))
    assert host.tables == [1]


# --- who it is ---------------------------------------------------------------------------------------


def test_b38_the_box_is_ready_when_it_has_said_who_it_is() -> None:
    host = Host().open()
    assert host.said("QRY")
    assert host.hear(STA).protocol.status is Status.INIT
    assert host.ask().causes == ["box is init"]
    assert host.hear(sentence("HEL", 1, *HELLO)).protocol.status is Status.READY
    assert dict(host.protocol.identity)["serial"] == SERIAL


def test_a_box_whose_hello_was_lost_is_asked_again() -> None:
    host = Host().open().hear(STA, STA)
    assert len(host.said("QRY")) == 3
    assert len(host.hear(sentence("HEL", 1, *HELLO), STA).said("QRY")) == 3


@pytest.mark.parametrize(
    "hello",
    [
        ("1", "ODDS", "ACME", "O1", "OD000018", "1.0", "B"),
        ("2", *HELLO[1:]),
        ("1", "ODDS", "ACME", "O1", "", "1.0", "B"),
        ("1",),
    ],
)
def test_another_box_is_the_wrong_device(hello: tuple[str, ...]) -> None:
    setup = DeviceSetup("odds", "odds", secret=KEY, expect={"serial": SERIAL})
    host = Host(setup).open_ready(*hello)
    assert host.protocol.status is Status.WRONG_DEVICE
    assert host.ask().causes == ["box is wrong-device"]
    assert host.of(DeviceReady) == []
    assert host.hear(STA).protocol.status is Status.WRONG_DEVICE
    assert host.hear(sentence("HEL", 1, *HELLO)).protocol.status is Status.READY


def test_a_fault_of_another_box_does_not_make_it_ours() -> None:
    setup = DeviceSetup("odds", "odds", secret=KEY, expect={"serial": "OTHER"})
    host = Host(setup).open_ready().hear(sentence("FLT", 7, "", "02", "TEXT"))
    assert host.protocol.status is Status.WRONG_DEVICE


def test_a_box_without_a_serial_number_is_the_wrong_device_and_the_cause_says_so() -> None:
    host = Host().open_ready("1", "ODDS", "ACME", "O1", "", "1.0", "B")
    assert host.of(DeviceTrouble)[0].cause.startswith("serial")


def test_a_box_that_is_changed_in_mid_draw_fails_it() -> None:
    setup = DeviceSetup("odds", "odds", secret=KEY, expect={"serial": SERIAL})
    host = Host(setup).open_ready().ask(412, NONCE)
    host.hear(sentence("HEL", 1, *HELLO[:4], "OD000018", "1.0", "B"))
    assert host.causes == ["wrong-device"]


def test_a_box_that_restarts_is_asked_again_and_may_answer() -> None:
    host = asked().hear(sentence("HEL", 0, *HELLO[:6], "B008")).quiet(PERIOD_MS + 1)
    assert host.protocol.counters["reboots"] == 1
    assert len(host.said("DRW")) == 2
    assert host.hear(answer("0412", "1", 1, NONCE)).tables == [1]


def test_a_restart_ends_a_fault() -> None:
    host = Host().open_ready().hear(sentence("FLT", 7, "", "02", ""))
    assert host.hear(sentence("HEL", 0, *HELLO)).protocol.status is Status.FAULT
    assert host.hear(sentence("HEL", 0, *HELLO[:6], "B008")).protocol.status is Status.READY


# --- whether it speaks -------------------------------------------------------------------------------


def test_b18_a_box_is_stale_after_three_silent_periods() -> None:
    host = Host().open_ready().quiet(3 * PERIOD_MS)
    assert host.protocol.status is Status.READY
    assert host.quiet(1.001).protocol.status is Status.STALE
    assert host.ask().causes == ["box is stale"]
    assert host.hear(STA).protocol.status is Status.READY


def test_an_authentic_answer_after_a_silence_still_counts() -> None:
    host = asked().quiet(4 * PERIOD_MS)
    assert host.protocol.status is Status.STALE
    assert host.hear(answer("0412", "1", 1, NONCE)).tables == [1]


def test_a_silent_wrong_box_is_not_ready_when_it_speaks_again() -> None:
    setup = DeviceSetup("odds", "odds", secret=KEY, expect={"serial": "OTHER"})
    host = Host(setup).open_ready().quiet(60_000).hear(STA)
    assert host.protocol.status is Status.WRONG_DEVICE


def test_noise_does_not_keep_a_box_alive() -> None:
    host = Host().open_ready()
    for _ in range(8):
        host.quiet(PERIOD_MS)
        host.protocol.received(BadFrame(b"\xff", "not-printable"), host.at)
        host.hear(b"$ODSTA,5,1*0000", sentence("STA", 1, talker="WH"))
    assert host.protocol.status is Status.STALE


def test_a_box_that_is_lost_fails_the_draw() -> None:
    host = asked().lose()
    assert host.causes == ["device-lost"]
    assert statuses(host) == ["lost"]
    assert host.protocol.deadline_ns() is None
    assert host.ask(413).causes[-1] == "box is lost"


def test_an_answer_from_before_a_reconnect_is_not_taken() -> None:
    host = asked().lose().open().hear(answer("0412", "1", 1, NONCE), sentence("HEL", 1, *HELLO))
    assert host.hear(answer("0412", "1", 1, NONCE)).tables == []


def test_the_role_chooses_the_protocol() -> None:
    box = protocol(DeviceSetup("odds", "odds", secret=KEY))
    assert box.opened(Stamp(0, 0)).send[0].startswith(b"$HCQRY")


# --- anything ----------------------------------------------------------------------------------------

RES = st.builds(
    answer,
    st.sampled_from(["0001", "0002", "0003", ""]),
    st.sampled_from(["1", "2", "0", "x"]),
    st.integers(0, 6),
    st.sampled_from([f"{n:016X}" for n in (1, 2, 3)]),
    st.sampled_from(["", "", "", "0" * 16]),
)
LINE = st.one_of(
    RES,
    RES,
    st.sampled_from(
        [STA, sentence("HEL", 1, *HELLO), sentence("HEL", 1, *HELLO[:6], "B9"), sentence("HEL", 3)]
    ),
    st.sampled_from([sentence("FLT", 1, "0001", mask) for mask in ("01", "08", "")]),
    st.binary(max_size=60),
)
ACT = st.one_of(
    st.tuples(st.just("hear"), LINE),
    st.tuples(st.just("hear"), LINE),
    st.tuples(st.just("ask"), st.integers(1, 3)),
    st.tuples(st.just("quiet"), st.sampled_from([1, 499, 500, 1501, 5000])),
    st.tuples(st.sampled_from(["lose", "open"]), st.none()),
)


def perform(host: Host, acts: list[tuple[str, Any]]) -> None:
    """Acts in order; each table must come with the one answer that proves it."""
    waiting: dict[int, str] = {}
    for what, value in acts:
        before = len(host.of(OddsDrawn))
        match what:
            case "hear":
                host.hear(value)
            case "ask":
                host.ask(value, f"{value:016X}")
                waiting = {value: f"{value:016X}"}
            case "quiet":
                host.quiet(value)
            case "lose":
                host.lose()
            case "open":
                host.open_ready()
        for drawn in host.of(OddsDrawn)[before:]:
            game, count = f"{drawn.round:04}", f"{drawn.counter:09}"
            assert waiting.pop(drawn.round, None) == drawn.nonce
            assert value == answer(game, str(drawn.table), drawn.counter, drawn.nonce)
            assert drawn.proof == proof(game, str(drawn.table), count, drawn.nonce)
            assert drawn.table in (1, 2)


@settings(deadline=None)
@given(st.lists(ACT, max_size=40))
def test_no_table_without_an_authentic_answer_to_the_very_request(acts: list[tuple[str, Any]]) -> None:
    perform(Host().open_ready(), acts)


@settings(deadline=None)
@given(st.lists(ACT, max_size=20), st.lists(ACT, max_size=20))
def test_a_state_through_json_has_the_same_future(
    before: list[tuple[str, Any]], later: list[tuple[str, Any]]
) -> None:
    host = Host().open_ready()
    perform(host, before)
    twin = Host(now_ms=host.now_ms)
    twin.protocol.restore(msgspec.json.decode(msgspec.json.encode(host.protocol.snapshot())))
    assert twin.protocol.snapshot() == host.protocol.snapshot()
    host.events.clear()
    host.sent.clear()
    for one in (host, twin):
        for what, value in later:
            getattr(one, what)(*([] if value is None else [value]))
    assert (twin.events, twin.sent) == (host.events, host.sent)
    assert twin.protocol.deadline_ns() == host.protocol.deadline_ns()


@settings(deadline=None)
@given(st.data())
def test_a_damaged_answer_draws_no_other_table(draw: st.DataObject) -> None:
    line = bytearray(answer("0412", "1", 1, NONCE))
    for _ in range(draw.draw(st.integers(1, 8))):
        place = draw.draw(st.integers(0, len(line) - 1))
        line[place] = draw.draw(st.integers(0x20, 0x7E))
    assert asked().hear(bytes(line)).tables in ([], [1])
