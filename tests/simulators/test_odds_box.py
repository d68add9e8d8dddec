"""The simulated odds box: one draw a game, repeated until acknowledged, with a proof."""

from __future__ import annotations

import hashlib
import hmac
from random import Random

import pytest

from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions, draw_table
from dollyd.simulators.tlp import Sentence, frame, parse
from dollyd.wire.stamp import NS_PER_MS, NS_PER_S

KEY = b"a key shared with the host"
NONCE = "9C0D4E7A11B2F00D"
SERIAL = OddsBoxOptions().serial


def box_with(*faults: str, script: tuple[int, ...] = ()) -> OddsBox:
    box = OddsBox(OddsBoxOptions(), KEY, Random(4), 0, script=script)
    box.advance(0)
    for name in faults:
        box.faults.set(name)
    return box


def read(data: bytes) -> list[Sentence | None]:
    return [parse(line) for line in data.split(b"\r\n") if line]


def results(data: bytes) -> list[Sentence]:
    return [sentence for sentence in read(data) if sentence is not None and sentence.command == "RES"]


def ask(box: OddsBox, game: str = "0412", nonce: str = NONCE, at_ns: int = NS_PER_MS) -> bytes:
    return box.command(frame("HC", "DRW", 9, game, nonce), at_ns)


def proof_holds(result: Sentence) -> bool:
    game, table, counter, nonce, mac = result.fields
    text = f"OD1,{SERIAL},{game},{table},{counter},{nonce}"
    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()[:16].upper() == mac


def test_hello_at_boot_and_a_heartbeat_every_period() -> None:
    box = OddsBox(OddsBoxOptions(), KEY, Random(4), 0)
    hello, *heartbeats = read(box.advance(2 * NS_PER_S))
    assert hello is not None
    assert (hello.talker, hello.command, hello.seq) == ("OD", "HEL", 0)
    assert hello.fields[:6] == ("1", "ODDS", "ACME", "ODDS2", SERIAL, "1.0.3")
    assert [beat.seq for beat in heartbeats if beat and beat.command == "STA"] == [1, 2, 3, 4, 5]


def test_draw_is_answered_at_once_with_a_proof() -> None:
    box = box_with(script=(2,))
    (result,) = results(ask(box))
    assert result.fields[:4] == ("0412", "2", "000000001", NONCE)
    assert proof_holds(result)
    assert box.drawn[0].table == 2


def test_tables_of_draws_to_come_can_be_scripted() -> None:
    box = box_with()
    for table in (2, 1, 2):
        box.will_draw(table)
    for game in ("0001", "0002", "0003"):
        ask(box, game)
    assert [drawn.table for drawn in box.drawn] == [2, 1, 2]
    with pytest.raises(ValueError, match="no odds table 3"):
        box.will_draw(3)


@pytest.mark.parametrize("talker", ["HC", "OD"])
def test_both_talkers_may_ask(talker: str) -> None:
    assert results(box_with().command(frame(talker, "DRW", 9, "0412", NONCE), 1))


def test_answer_is_repeated_unchanged_until_the_right_ack() -> None:
    box = box_with()
    first = ask(box)
    (result,) = results(first)
    assert box.advance(NS_PER_S).count(first) == 2
    box.command(frame("HC", "ACK", result.seq + 1, "0412"), NS_PER_S)
    box.command(frame("HC", "ACK", result.seq, "0413"), NS_PER_S)
    assert box.advance(2 * NS_PER_S).count(first) == 2
    box.command(frame("HC", "ACK", result.seq, "0412"), 2 * NS_PER_S)
    assert results(box.advance(4 * NS_PER_S)) == []
    assert ask(box, at_ns=4 * NS_PER_S) == first, "a host that lost the answer may ask again"
    assert box.advance(5 * NS_PER_S).count(first) == 2


def test_same_request_same_answer_and_no_second_draw() -> None:
    box = box_with()
    first = ask(box)
    assert ask(box) == first
    ask(box, "0413", "0" * 16)
    assert ask(box) == first
    assert [drawn.counter for drawn in box.drawn] == [1, 2]


def test_asked_twice_it_still_repeats_one_answer_a_period() -> None:
    box = box_with()
    first = ask(box)
    ask(box)
    assert box.advance(NS_PER_S).count(first) == 2


def test_another_nonce_for_the_game_gets_the_first_answer_and_a_notice() -> None:
    box = box_with()
    first = ask(box)
    answer = ask(box, nonce="F" * 16)
    notice, result = read(answer)
    assert notice is not None
    assert (notice.command, notice.fields[:2]) == ("FLT", ("0412", "10"))
    assert results(first) == [result]
    assert len(box.drawn) == 1


def test_query_gives_hello_and_the_answer_not_yet_acknowledged() -> None:
    box = box_with()
    first = ask(box)
    answer = box.command(frame("HC", "QRY", 1), 2 * NS_PER_MS)
    assert [sentence.command for sentence in read(answer) if sentence] == ["HEL", "RES"]
    assert answer.endswith(first)


def test_draws_survive_a_power_cut_under_a_new_boot_id() -> None:
    box = box_with()
    before = read(box.command(frame("HC", "QRY", 1), 1))[0]
    first = ask(box)
    box.power_off(NS_PER_S)
    assert box.advance(2 * NS_PER_S) == b""
    assert ask(box, at_ns=2 * NS_PER_S) == b""
    box.power_on(2 * NS_PER_S)
    sent = box.advance(2 * NS_PER_S)
    after = read(sent)[0]
    assert before
    assert after
    assert before.fields[6] != after.fields[6]
    assert first in sent
    assert len(box.drawn) == 1


def test_damaged_request_is_met_with_silence() -> None:
    box = box_with()
    assert box.command(frame("HC", "DRW", 9, "0412", NONCE).replace(b"0412", b"0413"), 1) == b""
    assert box.command(b"\xff\x00$$$*\r\n", 1) == b""
    assert box.drawn == []


def test_one_table_in_thirty_is_table_2() -> None:
    rng = Random(7)
    twos = sum(draw_table(rng) == 2 for _ in range(30_000))
    assert 880 <= twos <= 1120  # 1000 +- 4 sigma


def test_same_seed_same_bytes() -> None:
    def bytes_of() -> bytes:
        box = box_with()
        return b"".join(ask(box, str(game)) for game in range(50))

    assert bytes_of() == bytes_of()


def test_53_no_answer() -> None:
    box = box_with("odds-no-answer")
    assert ask(box) + ask(box) == b""
    assert results(box.advance(60 * NS_PER_S)) == []
    assert results(ask(box, "0413"))


def test_53_late_answer() -> None:
    box = box_with("odds-late-answer")
    assert ask(box, at_ns=0) == b""
    assert results(box.advance(19 * NS_PER_S)) == []
    assert proof_holds(results(box.advance(20 * NS_PER_S))[0])


def test_53_two_different_answers() -> None:
    box = box_with("odds-two-answers")
    said = results(ask(box)) + results(box.advance(NS_PER_S))
    assert {result.fields[1] for result in said} == {"1", "2"}
    assert {result.fields[2] for result in said} == {"000000001"}
    assert all(proof_holds(result) for result in said)


@pytest.mark.parametrize(
    ("fault", "counters"), [("odds-counter-gap", [1, 3]), ("odds-counter-repeat", [1, 1])]
)
def test_53_counter(fault: str, counters: list[int]) -> None:
    box = box_with(fault)
    said = results(ask(box, "1")) + results(ask(box, "2"))
    assert [int(result.fields[2]) for result in said] == counters


def test_53_bad_mac() -> None:
    assert not proof_holds(results(ask(box_with("odds-bad-mac")))[0])


def test_53_wrong_nonce() -> None:
    assert results(ask(box_with("odds-wrong-nonce")))[0].fields[3] != NONCE


def test_47_wrong_game() -> None:
    assert results(ask(box_with("odds-wrong-game")))[0].fields[0] != "0412"


def test_53_table_not_1_or_2() -> None:
    (result,) = results(ask(box_with("odds-bad-table")))
    assert result.fields[1] == "3"
    assert proof_holds(result)


def test_53_stuck_generator() -> None:
    box = box_with("odds-stuck")
    assert {results(ask(box, str(game)))[0].fields[1] for game in range(20)} == {"2"}


def test_53_health_flag_until_a_power_cycle() -> None:
    box = box_with("odds-health")
    for game in ("1", "2"):
        (fault,) = read(ask(box, game))
        assert fault is not None
        assert (fault.command, fault.fields) == ("FLT", (game, "01", "HEALTH"))
    beat = read(box.advance(500 * NS_PER_MS))[0]
    assert beat is not None
    assert int(beat.fields[2], 16) & 1
    box.power_off(NS_PER_S)
    box.power_on(NS_PER_S)
    assert results(ask(box, "3", at_ns=NS_PER_S))


def test_47_answer_nobody_asked_for() -> None:
    (result,) = results(box_with("odds-unasked").advance(600 * NS_PER_MS))
    assert proof_holds(result)


def test_25_boot_in_mid_round() -> None:
    box = box_with("odds-reboot")
    assert ask(box, at_ns=NS_PER_S) == b""
    hello = read(box.advance(NS_PER_S))[0]
    assert hello is not None
    assert hello.command == "HEL"
    assert box.drawn == []
    assert results(ask(box, at_ns=NS_PER_S))


def test_11_wrong_crc_three_times() -> None:
    box = box_with("odds-bad-crc")
    assert read(ask(box)) == [None]
    sent = read(box.advance(1500 * NS_PER_MS))
    assert sent.count(None) == 2
    assert len([one for one in sent if one and one.command == "RES"]) == 1
