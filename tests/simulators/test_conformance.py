"""The conformance test: sound devices pass, and each broken one fails exactly the clause that it breaks."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.simulators.conformance_bench import (
    KEY,
    Spoilt,
    broken,
    conduct,
    in_state,
    told,
    unseen,
    verdict_of,
)
from tests.simulators.tlp_devices import bowl, camera, console, detector, money, wheel

from dollyd.simulators.conformance.clauses import CLAUSES
from dollyd.simulators.conformance.findings import Verdict
from dollyd.simulators.conformance.record import Record, read
from dollyd.simulators.conformance.report import as_json, as_table, exit_code, judge
from dollyd.simulators.money_wheel import MoneyWheel, MoneyWheelOptions
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.tlp import Sentence, crc16_kermit, frame
from dollyd.simulators.tlp_wheel import TlpWheel, WheelOptions
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocols" / "tlp-1.md").read_text("utf-8")


def box() -> OddsBox:
    return OddsBox(OddsBoxOptions(), KEY, Random(3), 0)


SOUND: dict[str, tuple[str, Callable[[], Any]]] = {
    "wheel": ("WH", wheel),
    "boule": ("WH", bowl),
    "ball": ("BD", detector),
    "money": ("MW", money),
    "dice": ("DC", camera),
    "console": ("CN", console),
    "odds": ("OD", box),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("start_ms", [0, 230])
def test_a_sound_device_passes_and_everything_is_seen(name: str, start_ms: int) -> None:
    talker, make = SOUND[name]
    record = conduct(make(), talker, start_ns=start_ms * NS_PER_MS)
    assert broken(record) == set(), as_table(record, judge(record))
    assert unseen(record) == set()
    assert exit_code(judge(record), interactive=False) == 0


def test_every_clause_stands_in_the_document() -> None:
    for clause in CLAUSES:
        assert f"* **{clause.id}** " in DOCUMENT, clause


def test_the_host_says_nothing_but_query_acknowledge_and_draw() -> None:
    said = {said.sentence.command for said in conduct(box(), "OD").said if said.sentence is not None}
    assert said == {"QRY", "ACK", "DRW"}


# --- devices that break one clause -----------------------------------------------------------------


def faulty(make: Callable[[], Any], fault: str) -> Any:
    device = make()
    device.faults.set(fault)
    return device


def once(message: str, change: Callable[[Sentence, bytes], list[bytes]], nth: int = 2) -> Any:
    """Change the nth new sentence of a kind, and its repetitions."""
    seen: list[int] = []

    def spoil(sentence: Sentence, raw: bytes) -> list[bytes]:
        if sentence.command == message and sentence.seq not in seen:
            seen.append(sentence.seq)
        meant = len(seen) >= nth and sentence.command == message and sentence.seq == seen[nth - 1]
        return change(sentence, raw) if meant else [raw]

    return spoil


def always(message: str, change: Callable[[Sentence, bytes], list[bytes]]) -> Any:
    return lambda sentence, raw: change(sentence, raw) if sentence.command == message else [raw]


def repetitions(message: str, change: Callable[[int, Sentence, bytes], list[bytes]]) -> Any:
    """Change what is heard again: the number of times it was sent before is told."""
    counts: dict[int, int] = {}

    def spoil(sentence: Sentence, raw: bytes) -> list[bytes]:
        if sentence.command != message:
            return [raw]
        counts[sentence.seq] = counts.get(sentence.seq, -1) + 1
        return change(counts[sentence.seq], sentence, raw)

    return spoil


def bad_checksum(_: Sentence, raw: bytes) -> list[bytes]:
    return [raw[:-3] + (b"0" if raw[-3:-2] != b"0" else b"1") + raw[-2:]]


def mend_checksums(data: bytes) -> bytes:
    """What a device hears that does not look at checksums."""
    return re.sub(
        rb"\$([^$*]*)\*[0-9A-F]{4}", lambda found: b"$%b*%04X" % (found[1], crc16_kermit(found[1])), data
    )


class SlowHeart(TlpWheel):
    """Every second heartbeat is left out."""

    beats = itertools.count()

    def _heartbeat(self) -> None:
        if next(self.beats) % 2 and self._tick_ns is not None:
            self._tick_ns += self._period_ns
        else:
            super()._heartbeat()


class AnyAck(TlpWheel):
    """Takes any `HCACK` with the right number."""

    def _acknowledged(self, seq: int, key: str) -> None:
        super()._acknowledged(seq, self._pending[0].key if self._pending else key)


class DeafToAck(TlpWheel):
    """Repeats for ever."""

    def _acknowledged(self, seq: int, key: str) -> None:
        pass


class DeafToQuery(TlpWheel):
    """Says who it is, and leaves the result for later."""

    def _obey(self, sentence: Sentence) -> None:
        if sentence.command == "QRY":
            self._hello()
        else:
            super()._obey(sentence)


class SlowBox(OddsBox):
    """Repeats its answer with every second heartbeat only."""

    beats = itertools.count()

    def _tick(self, now_ns: int) -> bytes:
        sent = super()._tick(now_ns)
        for answer in self._answers if next(self.beats) % 2 else []:
            sent = sent.replace(answer.bytes, b"")
        return sent


class Nameless(MoneyWheel):
    """Never says who it is."""

    def _hello(self) -> None:
        pass


class ForgetfulBox(OddsBox):
    """Draws anew whenever it is asked."""

    def _asked(self, game: str, nonce: str, now_ns: int) -> bytes:
        self._draws.clear()
        self._answers.clear()
        return super()._asked(game, nonce, now_ns)


def spin(kind: type[TlpWheel]) -> TlpWheel:
    return kind(WheelOptions(), Random(3), 0)


BROKEN: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "other-talker": ("2.1", "WH", lambda: Spoilt(wheel(), once("EVT", lambda s, _: [told(s, talker="WX")]))),
    "unknown-message": (
        "2.1",
        "WH",
        lambda: Spoilt(wheel(), once("STA", lambda s, _: [told(s, command="LOG")])),
    ),
    "not-printable": (
        "2.2",
        "MW",
        lambda: Spoilt(money(), once("EVT", lambda _, raw: [b"$M\x00" + raw[3:]])),
    ),
    "too-long": (
        "2.2",
        "DC",
        lambda: Spoilt(camera(), once("STA", lambda s, _: [told(s, f3="00" + "," * 120)])),
    ),
    "line-feed-only": (
        "2.2",
        "CN",
        lambda: Spoilt(console(), always("STA", lambda _, raw: [raw[:-2] + b"\n"])),
    ),
    "wrong-crc": ("2.3", "WH", lambda: Spoilt(wheel(), once("EVT", bad_checksum))),
    "wrong-crc-heartbeat": ("2.3", "BD", lambda: Spoilt(detector(), once("STA", bad_checksum, nth=9))),
    "lower-case-crc": (
        "2.3",
        "OD",
        lambda: Spoilt(box(), once("STA", lambda _, raw: [raw[:-6] + b"abcd\r\n"])),
    ),
    "seq-not-plus-1": ("2.4", "WH", lambda: Spoilt(wheel(), once("EVT", lambda *_: []))),
    "repetition-changed": (
        "2.4",
        "WH",
        lambda: Spoilt(wheel(), repetitions("RES", lambda n, s, _: [told(s, f2=str(170 - n))])),
    ),
    "short-heartbeat": (
        "2.5",
        "WH",
        lambda: Spoilt(wheel(), once("STA", lambda s, _: [frame("WH", "STA", s.seq, *s.fields[:4])])),
    ),
    "state-of-no-kind": ("2.5", "OD", lambda: Spoilt(box(), once("STA", lambda s, _: [told(s, f0="7")]))),
    "not-silent-on-bad-crc": ("2.6", "WH", lambda: Spoilt(wheel(), hear=mend_checksums)),
    "no-hello": ("3.1", "MW", lambda: Nameless(MoneyWheelOptions(), Random(3), 0)),
    "wrong-kind": ("3.1", "DC", lambda: Spoilt(camera(), always("HEL", lambda s, _: [told(s, f1="WHEEL")]))),
    "no-serial": ("3.1", "CN", lambda: Spoilt(console(), always("HEL", lambda s, _: [told(s, f4="")]))),
    "heartbeat-too-slow": ("3.2", "WH", lambda: spin(SlowHeart)),
    "result-once": (
        "3.3",
        "WH",
        lambda: Spoilt(wheel(), repetitions("RES", lambda n, _, raw: [] if n else [raw])),
    ),
    "result-for-ever": ("3.3", "WH", lambda: spin(DeafToAck)),
    "result-again": ("3.3", "MW", lambda: faulty(money, "tlp-result-again")),
    "result-missing": ("3.3", "DC", lambda: faulty(camera, "tlp-result-missing")),
    "fault-of-no-form": (
        "3.4",
        "WH",
        lambda: Spoilt(faulty(wheel, "wheel-second-ball"), always("FLT", lambda s, _: [told(s, f1="no")])),
    ),
    "event-twice": ("3.5", "MW", lambda: Spoilt(money(), once("EVT", lambda _, raw: [raw, raw]))),
    "wrong-game": ("3.6", "WH", lambda: faulty(wheel, "tlp-wrong-game")),
    "game-number-jumps": ("3.6", "DC", lambda: faulty(camera, "tlp-counter-jump")),
    "deaf-to-query": ("4.1", "WH", lambda: spin(DeafToQuery)),
    "any-ack": ("4.2", "WH", lambda: spin(AnyAck)),
    "illegal-step": ("5.1", "WH", lambda: faulty(wheel, "wheel-jump-2-5")),
    "early-number": (
        "6.1",
        "WH",
        lambda: Spoilt(wheel(), once("STA", lambda s, _: [told(s, f2="17")], nth=30)),
    ),
    "n-from-0": ("6.2", "WH", lambda: Spoilt(wheel(), once("EVT", lambda s, _: [told(s, f2="2")], nth=1))),
    "seconds-for-ms": (
        "6.2",
        "WH",
        lambda: Spoilt(wheel(), always("EVT", lambda s, _: [told(s, f3=str(int(s.fields[3]) // 1000))])),
    ),
    "wheel-total": ("6.3", "WH", lambda: faulty(wheel, "wheel-counts-differ")),
    "laps-of-another-wheel": ("6.1", "WH", lambda: Spoilt(wheel(), in_state("4", f5="99"))),
    "pocket-of-another-number": (
        "6.3",
        "WH",
        lambda: Spoilt(wheel(), always("RES", lambda s, _: [told(s, f6=str((int(s.fields[6]) + 1) % 37))])),
    ),
    "laps-of-another-run": ("7.1", "BD", lambda: Spoilt(detector(), in_state("3", f2="99"))),
    "direction-of-another-run": (
        "7.3",
        "BD",
        lambda: Spoilt(detector(), always("RES", lambda s, _: [told(s, f2=str(1 - int(s.fields[2])))])),
    ),
    "no-pocket": ("6.3", "WH", lambda: Spoilt(bowl(), always("RES", lambda s, _: [told(s, f6="")]))),
    "unknown-flag": ("6.4", "WH", lambda: Spoilt(wheel(), once("STA", lambda s, _: [told(s, f6="800")]))),
    "drop-total": (
        "7.2",
        "BD",
        lambda: Spoilt(
            detector(), always("EVT", lambda s, raw: [told(s, f2="3")] if s.fields[1] == "DROP" else [raw])
        ),
    ),
    "detector-total": ("7.3", "BD", lambda: faulty(detector, "detector-counts-differ")),
    "other-sector": (
        "8.1",
        "MW",
        lambda: Spoilt(money(), in_state("5", f2="54")),
    ),
    "sectors-out-of-order": (
        "8.2",
        "MW",
        lambda: Spoilt(
            money(), once("EVT", lambda s, _: [told(s, f2=str((int(s.fields[2]) + 20) % 54 + 1))], nth=100)
        ),
    ),
    "money-total": ("8.3", "MW", lambda: faulty(money, "money-counts-differ")),
    "sector-of-result": ("8.3", "MW", lambda: faulty(money, "money-sector-blank")),
    "faces-missing": ("9.2", "DC", lambda: faulty(camera, "dice-other-number")),
    "face-off-die": ("9.2", "DC", lambda: faulty(camera, "dice-off-die")),
    "same-picture": ("9.2", "DC", lambda: Spoilt(camera(), always("RES", lambda s, _: [told(s, f7="A0")]))),
    "answer-not-shown": ("10.1", "OD", lambda: Spoilt(box(), always("STA", lambda s, _: [told(s, f0="1")]))),
    "draws-anew": ("10.2", "OD", lambda: ForgetfulBox(OddsBoxOptions(), KEY, Random(3), 0)),
    "counter-gap": ("10.2", "OD", lambda: faulty(box, "odds-counter-gap")),
    "slow-answers": ("3.3", "OD", lambda: SlowBox(OddsBoxOptions(), KEY, Random(3), 0)),
    "no-flag-10": ("10.2", "OD", lambda: Spoilt(box(), always("FLT", lambda s, _: [told(s, f1="00")]))),
    "bad-proof": ("10.3", "OD", lambda: faulty(box, "odds-bad-mac")),
    "other-key": ("10.3", "OD", lambda: OddsBox(OddsBoxOptions(), b"another", Random(3), 0)),
    "key-unknown": ("11.1", "CN", lambda: faulty(console, "console-other-key")),
    "key-once": (
        "11.1",
        "CN",
        lambda: Spoilt(console(), repetitions("EVT", lambda n, _, raw: [] if n else [raw])),
    ),
    "badge-not-shown": (
        "11.4",
        "CN",
        lambda: Spoilt(console(), always("STA", lambda s, _: [told(s, f0="X1")])),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_device_fails_exactly_its_clause(name: str) -> None:
    clause, talker, make = BROKEN[name]
    record = conduct(make(), talker, games=6 if talker == "CN" else 3)
    judged = judge(record)
    assert broken(record) == {clause}, as_table(record, judged)
    assert exit_code(judged, interactive=False) == 1


def test_1_3_a_device_that_restarts_when_its_port_is_opened() -> None:
    device = wheel()

    def restart(now_ns: int) -> None:
        device.power_off(now_ns)
        device.power_on(now_ns)

    record = conduct(device, "WH", on_opened=restart)
    assert broken(record) == {"1.3"}


def test_2_6_a_device_that_rubbish_kills_fails_there_too() -> None:
    dead: list[bool] = []

    def hear(data: bytes) -> bytes:
        dead.extend([True] if b"\x00" in data else [])
        return data

    device = Spoilt(wheel(), lambda _, raw: [] if dead else [raw], hear)
    record = conduct(device, "WH", limit_ns=60 * NS_PER_S)
    assert verdict_of(judge(record), "2.6") == {Verdict.PASS, Verdict.FAIL}
    assert exit_code(judge(record), interactive=False) == 1


def test_nothing_heard_is_no_pass_and_no_failure() -> None:
    record = conduct(Spoilt(wheel(), lambda *_: []), "WH", limit_ns=20 * NS_PER_S)
    assert {one.verdict for one in judge(record)} == {Verdict.NOT_SEEN}
    assert exit_code(judge(record), interactive=False) == 2


def test_too_little_time_is_told_by_the_exit_code() -> None:
    record = conduct(wheel(), "WH", limit_ns=20 * NS_PER_S)
    assert broken(record) == set()
    assert exit_code(judge(record), interactive=False) == 2


def test_a_result_left_over_from_before_the_test_is_no_fault() -> None:
    device = wheel()
    device.advance(50 * NS_PER_S)  # nobody has acknowledged its first result
    device.power_off(50 * NS_PER_S)
    device.power_on(60 * NS_PER_S)
    record = conduct(device, "WH", start_ns=60 * NS_PER_S)
    assert broken(record) == set(), as_table(record, judge(record))
    assert any(line.message == "RES" and line.at_ns < 61 * NS_PER_S for line in record.lines)


# --- what a person is asked for --------------------------------------------------------------------


class Hands:
    """Somebody who does what is asked. `shown`: whether a result waits, so that the power may go."""

    def __init__(self, device: Any, shown: Callable[[], bool]) -> None:
        self.device = device
        self.asked: list[str] = []
        self._shown = shown
        self._off_ns = 0

    def __call__(self, step: str, now_ns: int) -> None:
        new = step not in self.asked
        self.asked += [step] if new else []
        match step:
            case "badge" if new:
                self.device.put_on("B9")
            case "fault" if new:
                self.device.raise_flag(0x04, "SENSOR")
            case "fault":
                self.device.clear_flags()
            case "power":
                self._switch(now_ns)

    def _switch(self, now_ns: int) -> None:
        if self._off_ns == 0 and self._shown():
            self._off_ns = now_ns
            self.device.power_off(now_ns)
        elif self._off_ns and now_ns - self._off_ns > 3 * NS_PER_S:
            self.device.power_on(now_ns)


def hands_for(device: Any) -> Hands:
    if isinstance(device, OddsBox):
        return Hands(device, lambda: bool(device._answers))
    return Hands(device, lambda: bool(device._pending) or device._talker == "CN")


@pytest.mark.parametrize("name", SOUND)
def test_3_1_3_3_3_4_with_a_person_everything_is_seen(name: str) -> None:
    talker, make = SOUND[name]
    device = make()
    hands = hands_for(device)
    record = conduct(device, talker, person=hands, limit_ns=900 * NS_PER_S)
    assert hands.asked == {"CN": ["badge", "fault", "power"], "OD": ["power"]}.get(talker, ["fault", "power"])
    judged = judge(record)
    assert broken(record) == set(), as_table(record, judged)
    assert exit_code(judged, interactive=True) == 0, as_table(record, judged)


def test_3_3_a_result_that_is_lost_with_the_power() -> None:
    device = wheel()
    hands = hands_for(device)

    def person(step: str, now_ns: int) -> None:
        hands(step, now_ns)
        if device.due_ns() is None:
            device._pending.clear()

    record = conduct(device, "WH", person=person, limit_ns=900 * NS_PER_S)
    assert broken(record) == {"3.3"}


def test_3_1_the_same_boot_id_after_a_loss_of_power() -> None:
    device = Spoilt(wheel(), always("HEL", lambda s, _: [told(s, f6="SAME")]))
    record = conduct(device, "WH", person=hands_for(device.model), limit_ns=300 * NS_PER_S)
    assert "3.1" in broken(record)


# --- the report, and the reader of lines -----------------------------------------------------------


def test_evidence_is_the_sentence_and_its_time() -> None:
    record = conduct(faulty(box, "odds-bad-mac"), "OD")
    judged = judge(record)
    table = as_table(record, judged)
    assert re.search(r"fail +10\.3 .*\n +at \d+\.\d{3} s: over OD1,.*\n +\$ODRES,", table)
    report = json.loads(as_json(record, judged, 1))
    (failed,) = [clause for clause in report["clauses"] if clause["verdict"] == "fail"]
    assert failed["id"] == "10.3"
    assert failed["faults"][0]["sentence"].startswith("$ODRES,")
    assert report["exit"] == 1


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    data = b"$WHSTA,1*0\r\n\r\nabc\n$x\rlast\r\n" + b"U" * 3000 + b"\r\n"
    record = Record("WH")
    record.opened(0)
    for at in range(0, len(data), size):
        record.heard(data[at : at + size], at)
    assert [line.raw for line in record.lines[:4]] == [b"$WHSTA,1*0", b"abc", b"$x", b"last"]
    assert sum(len(line.raw) for line in record.lines[4:]) == 3000


@pytest.mark.parametrize(
    ("raw", "end", "clause"),
    [
        (b"$WHSTA,1*58C3", b"\r\n", "2.3"),
        (b"WHSTA,1*58C3", b"\r\n", "2.2"),
        (frame("wh", "STA", 1).strip(), b"\r\n", "2.1"),
        (frame("WH", "STA", 65536).strip(), b"\r\n", "2.4"),
        (frame("WH", "STA", 1).strip(), b"\n", "2.2"),
        (frame("WH", "STA", 1).strip(), b"\r\n", ""),
    ],
)
def test_what_is_wrong_with_a_line(raw: bytes, end: bytes, clause: str) -> None:
    assert read(raw, end)[1] == clause
