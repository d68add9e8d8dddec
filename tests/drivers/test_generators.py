"""The host's draw of the odds table: exact, fresh, once a round, never from a failed generator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dollyd.daemon.core.events import DeviceEvent, DeviceReady, DeviceTrouble, OddsDrawn, OddsFailed
from dollyd.drivers import DRIVERS
from dollyd.drivers.framing import BadFrame, Frame
from dollyd.drivers.protocols.generators import (
    ONERNG_START,
    WORDS,
    GeneratorProtocol,
    chaoskey,
    onerng,
    proof_of,
    table_of,
    table_of_block,
    truerng,
)
from dollyd.drivers.protocols.odds_monitor import ONES_IN_A_ROW_MAX, TOO_FEW, TWOS_IN_A_ROW_MAX, WINDOW
from dollyd.drivers.spec import NOTHING, DeviceSetup, DrawOdds, Said, Status
from dollyd.wire.stamp import NS_PER_MS, Stamp

NONCE, OTHER_NONCE = "9C0D4E7A11B2F00D", "0000000000000001"
PERIOD_MS = 500
LIMIT = WORDS // 30 * 30
FAILED = "health:repetition"

E = TypeVar("E")


def block(*words: int) -> str:
    """A block whose first words are these; the rest would draw table 2."""
    return "".join(f"{word:08x}" for word in [*words, *[0] * (8 - len(words))])


ONE, TWO = block(1), block(30)


@dataclass
class Host:
    """The driver with a generator at its side; time passes only when told, ticks come at the deadlines."""

    make: Callable[[DeviceSetup], GeneratorProtocol] = truerng
    setup: DeviceSetup = field(default_factory=lambda: DeviceSetup("odds", "odds", period_ms=PERIOD_MS))
    now_ms: int = 1_000_000
    events: list[DeviceEvent] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.protocol = self.make(self.setup)

    @property
    def at(self) -> Stamp:
        return Stamp(self.now_ms * NS_PER_MS, self.now_ms * NS_PER_MS)

    def open(self) -> Host:
        return self._take(self.protocol.opened(self.at))

    def ready(self) -> Host:
        return self.open().hear(ONE)

    def hear(self, *frames: str) -> Host:
        for text in frames:
            self._take(self.protocol.received(Frame(text.encode("latin-1")), self.at))
        return self

    def ask(self, round_number: int = 412, nonce: str = NONCE) -> Host:
        return self._take(self.protocol.order(DrawOdds(round_number, nonce), self.at))

    def draw(self, round_number: int, text: str) -> Host:
        return self.ask(round_number, f"{round_number:016X}").hear(ONE, text)

    def quiet(self, ms: int) -> Host:
        until_ns = (self.now_ms + ms) * NS_PER_MS
        while (due_ns := self.protocol.deadline_ns()) is not None and due_ns < until_ns:
            self._take(self.protocol.tick(Stamp(due_ns, due_ns)))
            after_ns = self.protocol.deadline_ns()
            assert after_ns is None or after_ns > due_ns, "a deadline in the past: the loop would spin"
        self.now_ms += ms
        return self

    def lose(self, cause: str = "gone") -> Host:
        return self._take(self.protocol.lost(cause, self.at))

    def _take(self, said: Said) -> Host:
        self.events += [event for event in said.events if isinstance(event, DeviceEvent)]
        self.sent += said.send
        return self

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def tables(self) -> list[int]:
        return [event.table for event in self.of(OddsDrawn)]

    @property
    def causes(self) -> list[str]:
        return [event.cause for event in self.of(OddsFailed)]

    @property
    def statuses(self) -> list[str]:
        return [str(event.status) for event in self.of(DeviceTrouble)]


# --- the draw is exact -----------------------------------------------------------------------------------


def test_b57_table_2_has_the_probability_of_one_in_thirty_exactly() -> None:
    # Every multiple of 30 below the limit gives table 2, everything else below it table 1.
    accepted, twos = LIMIT, len(range(0, LIMIT, 30))
    assert (accepted, twos) == (4_294_967_280, 143_165_576)
    assert twos * 30 == accepted
    assert WORDS - accepted == 16, "so many words are rejected"
    assert [table_of(word) for word in (0, 1, 29, 30, LIMIT - 30, LIMIT - 1)] == [2, 1, 1, 2, 2, 1]
    assert [table_of(word) for word in range(LIMIT, WORDS)] == [None] * 16


@pytest.mark.parametrize("words", [30, 31, 59, 60, 256, 1000, 2**16, 2**20])
def test_b57_every_word_of_a_smaller_generator_counted_one_by_one(words: int) -> None:
    tables = [table_of(word, words) for word in range(words)]
    assert tables.count(2) * 29 == tables.count(1)
    assert tables.count(2) > 0
    assert tables.count(None) == words % 30


@given(st.integers(0, WORDS - 1))
def test_b57_a_word_decides_as_the_rule_says(word: int) -> None:
    expected = None if word >= LIMIT else 2 if word % 30 == 0 else 1
    assert table_of(word) == expected


def test_the_first_word_that_is_not_rejected_decides() -> None:
    assert table_of_block(block(31, 30)) == 1
    assert table_of_block(block(30, 31)) == 2
    assert table_of_block(block(WORDS - 1, LIMIT, 7, 30)) == 1
    assert table_of_block("01000000" + "0" * 56) == 1, "big-endian: 2^24 = 16 mod 30"
    assert table_of_block("0000001e" + "f" * 56) == 2


def test_a_block_of_rejected_words_leaves_the_draw_to_the_next() -> None:
    host = Host().ready().ask().hear(ONE, "f" * 64)
    assert host.tables == []
    assert host.hear(TWO).tables == [2]
    assert host.of(OddsDrawn)[0].counter == 1


def test_the_draw_can_be_made_again_from_record_and_capture() -> None:
    host = Host().ready().ask().hear(TWO, ONE)
    digest = hashlib.sha256(f"HG1,{NONCE},{ONE}".encode()).hexdigest()[:16].upper()
    assert host.of(OddsDrawn) == [OddsDrawn("odds", 412, 1, 1, NONCE, digest)]
    assert [text for text in (ONE, TWO) if proof_of(NONCE, text) == digest] == [ONE]


# --- only fresh bytes ------------------------------------------------------------------------------------


def test_the_block_that_was_under_way_at_the_order_does_not_count() -> None:
    host = Host().ready().ask().hear(TWO)
    assert (host.tables, host.causes) == ([], [])
    assert host.hear(ONE).tables == [1]


def test_bytes_from_before_the_order_never_decide() -> None:
    """The framing and the driver together: what decides came whole after the order."""
    framing, host = DRIVERS["truerng"].framing(), Host().open()
    stream, heard, ordered_at = Random(7), bytearray(), 0
    while len(host.of(OddsDrawn)) < 40:
        chunk = stream.randbytes(stream.randint(1, 3000))
        heard += chunk
        for frame in framing.feed(chunk):
            before = len(host.of(OddsDrawn))
            host.hear(frame.raw.decode())
            if len(host.of(OddsDrawn)) > before:
                assert heard.index(bytes.fromhex(frame.raw.decode())) >= ordered_at
        if (
            host.protocol.status is Status.READY
            and len(host.of(OddsDrawn)) == host.protocol._state.last_round
        ):
            ordered_at = len(heard)
            host.ask(len(host.of(OddsDrawn)) + 1)
    assert [drawn.counter for drawn in host.of(OddsDrawn)] == list(range(1, 41))


def test_every_draw_has_its_own_block() -> None:
    host = Host().ready().draw(1, ONE).hear(TWO, TWO).draw(2, ONE)
    assert host.tables == [1, 1]
    assert [drawn.round for drawn in host.of(OddsDrawn)] == [1, 2]


# --- one draw a round ------------------------------------------------------------------------------------


def test_the_same_order_again_gets_the_same_answer() -> None:
    host = Host().ready().ask().hear(ONE, ONE).ask().hear(TWO, TWO, TWO)
    first, again = host.of(OddsDrawn)
    assert first == again
    assert host.causes == []


def test_the_same_order_again_before_the_answer_changes_nothing() -> None:
    host = Host().ready().ask().hear(ONE).ask().hear(TWO, ONE)
    assert (host.tables, host.causes) == ([2], [])


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_second_draw_for_a_round_is_refused_and_fails_the_round(blocks: int) -> None:
    host = Host().ready().ask().hear(*[ONE] * blocks).ask(412, OTHER_NONCE).hear(TWO, TWO, TWO)
    assert host.tables == [1] * (blocks == 2)
    assert host.causes == ["asked-twice"]


def test_a_failed_draw_is_not_tried_again() -> None:
    host = Host().ready().ask().lose().open().hear(ONE).ask().hear(ONE, ONE, ONE)
    assert host.tables == []
    assert host.causes == ["device-lost", "asked-twice"]


def test_an_earlier_round_is_not_drawn_any_more() -> None:
    host = Host().ready().draw(5, ONE).ask(6).ask(4).hear(ONE, TWO)
    assert host.causes == ["asked-twice"]
    assert [drawn.round for drawn in host.of(OddsDrawn)] == [5, 6]


def test_the_next_round_ends_a_draw_that_still_waits() -> None:
    host = Host().ready().ask(1).hear(ONE).ask(2).hear(ONE)
    assert (host.tables, host.causes) == ([], ["superseded"])
    assert host.hear(TWO).of(OddsDrawn)[0].round == 2


# --- health ----------------------------------------------------------------------------------------------


def test_a_failed_test_fails_the_draw_and_every_later_one() -> None:
    host = Host().ready().ask().hear(ONE, FAILED, FAILED)
    assert host.protocol.status is Status.FAULT
    assert host.statuses == ["fault"]
    host.ask(413).hear(FAILED, ONE, ONE).ask(414)
    assert host.causes == [FAILED, f"generator is {FAILED}", f"generator is {FAILED}"]
    assert host.tables == []


def test_a_generator_that_fails_at_the_start_is_never_ready() -> None:
    host = Host().open().hear(FAILED, ONE)
    assert host.protocol.status is Status.FAULT
    assert host.of(DeviceReady) == []


@pytest.mark.parametrize("cause", ["gone", "eof", "io-error"])
def test_unplugged_and_tested_again_it_is_good(cause: str) -> None:
    host = Host().ready().hear(FAILED).lose(cause).open()
    assert host.ask(1).causes == ["generator is init"]
    assert host.hear(ONE).protocol.status is Status.READY
    assert host.draw(2, ONE).tables == [1]


@pytest.mark.parametrize("cause", ["overrun", "noise", "write-timeout", "capture-overflow", "stalled"])
def test_a_connection_that_was_not_unplugged_mends_nothing(cause: str) -> None:
    host = Host().ready().hear(FAILED).lose(cause).open().hear(ONE)
    assert host.protocol.status is Status.FAULT
    assert host.draw(1, ONE).causes == [f"generator is {FAILED}"]
    assert len(host.of(DeviceReady)) == 1


def test_the_first_cause_of_a_fault_stays() -> None:
    host = Host().ready().hear(FAILED, "health:cycle").ask()
    assert host.causes == [f"generator is {FAILED}"]
    assert host.statuses == ["fault"]


def test_a_fault_outlasts_a_silence() -> None:
    host = Host().ready().hear(FAILED).quiet(60_000).hear(ONE)
    assert host.protocol.status is Status.FAULT
    assert host.statuses == ["fault", "stale", "fault"]


@pytest.mark.parametrize(("text", "limit"), [(TWO, TWOS_IN_A_ROW_MAX), (ONE, ONES_IN_A_ROW_MAX)])
def test_a_generator_stuck_on_one_table_is_out_of_order(text: str, limit: int) -> None:
    host = Host().ready()
    for number in range(1, limit + 1):
        host.draw(number, text)
    assert len(host.tables) == limit - 1, "the draw that raises the alarm does not count"
    assert host.causes == ["stuck"]
    assert host.protocol.status is Status.FAULT
    assert host.draw(9999, ONE).causes[-1] == "generator is stuck"
    assert host.lose().open().hear(ONE).draw(10_000, ONE).causes == ["stuck", "generator is stuck"]


def test_t64_a_generator_that_draws_table_2_too_seldom_is_out_of_order() -> None:
    host = Host().ready()
    for number in range(1, WINDOW + 1):
        host.draw(number, TWO if number % (WINDOW // TOO_FEW) == 0 and number < WINDOW else ONE)
    assert host.tables.count(2) == TOO_FEW
    assert host.causes == ["table-2-too-seldom"]
    assert host.protocol.status is Status.FAULT


# --- silence and losses ----------------------------------------------------------------------------------


def test_b18_a_generator_is_stale_after_three_silent_periods() -> None:
    host = Host().ready().quiet(3 * PERIOD_MS)
    assert host.protocol.status is Status.READY
    assert host.quiet(1).protocol.status is Status.STALE
    assert host.ask().causes == ["generator is stale"]
    assert host.hear(ONE).protocol.status is Status.READY


def test_silence_fails_the_draw() -> None:
    host = Host().ready().ask().hear(ONE).quiet(4 * PERIOD_MS)
    assert host.causes == ["silent"]
    assert host.hear(ONE, ONE).tables == []


def test_a_generator_that_never_speaks_is_told() -> None:
    host = Host().open().quiet(60_000)
    assert host.statuses == ["stale"]
    assert host.hear(ONE).protocol.status is Status.READY


def test_a_lost_generator_fails_the_draw_and_comes_back() -> None:
    host = Host().ready().ask().hear(ONE).lose()
    assert host.causes == ["device-lost"]
    assert (host.protocol.status, host.protocol.deadline_ns()) == (Status.LOST, None)
    assert host.hear(ONE).protocol.status is Status.LOST
    assert host.open().protocol.status is Status.INIT
    assert host.hear(ONE).draw(413, TWO).tables == [2]


def test_noise_is_counted_and_keeps_nobody_alive() -> None:
    host = Host().ready().quiet(2 * PERIOD_MS)
    host.hear("", "ONERNG 3.6", ONE[:-1], ONE + "0", ONE.upper().replace("0", "A"), "health:", "health:1")
    host._take(host.protocol.received(BadFrame(ONE.encode(), "bad"), host.at))
    assert host.protocol.counters["bad"] == 8
    assert host.quiet(PERIOD_MS + 1).protocol.status is Status.STALE


# --- the three devices -----------------------------------------------------------------------------------


def test_b38_it_is_ready_when_a_block_has_passed_the_tests() -> None:
    host = Host().open()
    assert (host.protocol.status, host.protocol.identity) == (Status.INIT, ())
    assert host.ask().causes == ["generator is init"]
    assert host.hear(ONE).of(DeviceReady) == [DeviceReady("odds", host.protocol.identity)]
    assert dict(host.protocol.identity) == {"model": "TrueRNG", "drawn-by": "host"}


@pytest.mark.parametrize("make", [truerng, chaoskey])
def test_nothing_is_ever_sent_to_a_generator_that_runs_by_itself(
    make: Callable[[DeviceSetup], GeneratorProtocol],
) -> None:
    host = Host(make).ready().draw(1, ONE).quiet(60_000).hear(ONE).hear(FAILED).lose().open()
    assert host.sent == []


def test_a_onerng_is_told_to_run_and_asked_nothing() -> None:
    host = Host(onerng).ready().draw(1, ONE)
    assert tuple(host.sent) == ONERNG_START == (b"cmd0\n", b"cmdO\n")
    assert host.protocol.identity[0] == ("model", "OneRNG")


def test_a_onerng_that_falls_silent_is_told_once_more() -> None:
    host = Host(onerng).ready().quiet(600_000)
    assert tuple(host.sent) == 2 * ONERNG_START
    host.hear(ONE).quiet(600_000)
    assert tuple(host.sent) == 3 * ONERNG_START


def test_b38_a_generator_that_should_show_a_serial_number_is_the_wrong_device() -> None:
    host = Host(setup=DeviceSetup("odds", "odds", expect={"serial": "00A1"})).ready()
    assert host.statuses == ["wrong-device"]
    assert host.ask().causes == ["generator is wrong-device"]
    assert host.hear(FAILED, ONE).protocol.status is Status.WRONG_DEVICE


def test_b38_another_model_than_expected_is_the_wrong_device() -> None:
    expect = {"model": "ChaosKey"}
    assert Host(setup=DeviceSetup("odds", "odds", expect=expect)).ready().statuses == ["wrong-device"]
    assert Host(chaoskey, DeviceSetup("odds", "odds", expect=expect)).ready().statuses == []


# --- state -----------------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.sampled_from([ONE, TWO, "f" * 64, FAILED, "noise"]).map(lambda text: ("hear", text)),
    st.tuples(st.just("ask"), st.integers(1, 6)),
    st.tuples(st.just("quiet"), st.integers(1, 5000)),
    st.sampled_from([("lose", "gone"), ("lose", "overrun"), ("open", "")]),
)


def perform(host: Host, step: tuple[str, Any]) -> None:
    match step:
        case ("hear", text):
            host.hear(text)
        case ("ask", number):
            host.ask(number, f"{number:016X}")
        case ("quiet", ms):
            host.quiet(ms)
        case ("lose", cause):
            host.lose(cause)
        case _:
            host.open()


@settings(deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 40))
def test_a_state_that_went_through_json_goes_on_as_if_it_had_not(
    steps: list[tuple[str, Any]], cut: int
) -> None:
    plain, restored = Host(onerng), Host(onerng)
    for number, step in enumerate(steps):
        if number == cut:
            restored.protocol = onerng(restored.setup)
            restored.protocol.restore(msgspec.json.decode(msgspec.json.encode(plain.protocol.snapshot())))
        perform(plain, step)
        perform(restored, step)
    assert restored.events == plain.events
    assert restored.protocol.snapshot() == plain.protocol.snapshot()


@settings(deadline=None, max_examples=200)
@given(st.lists(STEPS, max_size=60))
def test_whatever_happens_a_round_has_one_table_at_most(steps: list[tuple[str, Any]]) -> None:
    host = Host()
    for step in steps:
        perform(host, step)
    drawn = host.of(OddsDrawn)
    assert len({(one.round, one) for one in drawn}) == len({one.round for one in drawn})
    counters = [one.counter for one in dict.fromkeys(drawn)]
    assert counters == sorted(set(counters))
    failed = {one.round for one in host.of(OddsFailed)}
    refused = [event for event in host.events if isinstance(event, OddsDrawn | OddsFailed)]
    for number in failed:
        of_round = [event for event in refused if event.round == number]
        first_failure = next(i for i, event in enumerate(of_round) if isinstance(event, OddsFailed))
        later = [event for event in of_round[first_failure:] if isinstance(event, OddsDrawn)]
        assert all(event in of_round[:first_failure] for event in later), "a failed round is not drawn anew"


def test_a_tick_before_its_time_is_harmless() -> None:
    assert Host().ready().protocol.tick(Host().at) == NOTHING
