"""Offline verification finds what is wrong, and says where."""

from __future__ import annotations

import io
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chains import ChainMaker, decision, keys, signer
from tests.support.commands import correction, manual

from dollyd.client.proof.sources import envelopes_of_lines
from dollyd.client.proof.verify import PROBLEMS_MAX, Report, Start, verify_envelopes, verify_journal
from dollyd.daemon.journal.store import Journal
from dollyd.wire.jws import ENVELOPE_MAX_BYTES
from dollyd.wire.record import Kind


def _chain(rounds: int = 5) -> ChainMaker:
    return ChainMaker().begin().play(1, rounds)


def _whys(report: Report) -> list[tuple[int, str]]:
    return [(problem.seq, problem.why) for problem in report.problems]


# --- what is right -------------------------------------------------------------------------------


def test_a_whole_chain_is_right() -> None:
    maker = _chain()
    maker.add(Kind.ROUND, 6)
    report = verify_envelopes(maker.envelopes, keys(maker.signer))
    assert report.ok
    assert (report.records, report.rounds, report.tables) == (17, 5, ["r1"])
    assert report.kinds == {"key": 1, "round": 6, "bets-closed": 5, "result": 5}
    head = report.heads[maker.chain]
    assert (head.seq, head.digest, head.open_round) == (17, maker.prev, 6)
    assert report.keys == {maker.signer.kid: "pinned"}


def test_without_keys_the_chains_own_is_taken_and_said_to_be_not_pinned() -> None:
    maker = _chain()
    report = verify_envelopes(maker.envelopes)
    assert report.ok
    assert report.keys == {maker.signer.kid: "not pinned"}


def test_tables_may_be_mixed() -> None:
    first, second = ChainMaker("r1", "a" * 32).begin(), ChainMaker("r2", "b" * 32).begin()
    mixed = [*first.envelopes, *second.envelopes]
    first.play(1, 2)
    second.play(1, 2)
    for one, other in zip(first.envelopes[1:], second.envelopes[1:], strict=True):
        mixed += [other, one]
    report = verify_envelopes(mixed, keys(signer()))
    assert report.ok
    assert report.tables == ["r1", "r2"]
    assert set(report.heads) == {"a" * 32, "b" * 32}


def test_b54_records_of_an_old_key_stay_right_after_a_rotation() -> None:
    maker = _chain(2)
    maker.add(Kind.KEY, body={"event": "key-change", "jwk": signer(2).jwk, "reason": "rotation"})
    maker.signer = signer(2)
    maker.play(3, 4)
    pinned, unpinned = ("superseded", "announced"), ("not pinned", "not pinned")
    for trusted, (old, new) in ((keys(signer(1)), pinned), (None, unpinned)):
        report = verify_envelopes(maker.envelopes, trusted)
        assert report.ok
        assert report.keys == {signer(1).kid: old, signer(2).kid: new}


def test_a_key_that_nobody_announced_is_refused() -> None:
    maker = _chain(2)
    maker.signer = signer(2)
    maker.add(Kind.INCIDENT)
    for trusted in (keys(signer(1)), None):
        (problem,) = verify_envelopes(maker.envelopes, trusted).problems
        assert problem.why.startswith("unknown-key")


def test_a_chain_of_a_strangers_key_is_refused_where_keys_are_pinned() -> None:
    maker = ChainMaker(by=signer(2)).begin().play(1, 1)
    report = verify_envelopes(maker.envelopes, keys(signer(1)))
    assert [problem.why.split("; ")[-1] for problem in report.problems] == ["and so of 3 more records"]
    assert report.keys == {}


def test_an_announcement_must_be_signed_by_a_known_key() -> None:
    maker = _chain(1)
    maker.signer = signer(2)
    maker.add(Kind.KEY, body={"event": "key-change", "jwk": signer(2).jwk, "reason": "me"})
    maker.add(Kind.INCIDENT)
    for trusted in (keys(signer(1)), None):
        report = verify_envelopes(maker.envelopes, trusted)
        assert [problem.seq for problem in report.problems] == [5]
        assert report.problems[0].why.endswith("and so of 1 more records")


# --- what was done to a chain --------------------------------------------------------------------


def _without(data: list[bytes], at: int) -> list[bytes]:
    return data[:at] + data[at + 1 :]


def _swapped(data: list[bytes], at: int) -> list[bytes]:
    return [*data[:at], data[at + 1], data[at], *data[at + 2 :]]


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (lambda data: _without(data, 6), [(8, "records 7 to 7 are missing before it")]),
        (lambda data: data[:6] + data[9:], [(10, "records 7 to 9 are missing before it")]),
        (
            lambda data: [*data[:7], data[6], *data[7:]],
            [(7, "comes again or too late: the chain is at record 7")],
        ),
        (
            lambda data: _swapped(data, 6),
            [
                (8, "records 7 to 7 are missing before it"),
                (7, "comes again or too late: the chain is at record 8"),
            ],
        ),
    ],
    ids=["removed", "three removed", "duplicated", "reordered"],
)
def test_a_chain_tampered_with_is_found_at_its_place(
    tamper: Callable[[list[bytes]], list[bytes]], expected: list[tuple[int, str]]
) -> None:
    found = [why for why in _whys(verify_envelopes(tamper(_chain().envelopes))) if "round" not in why[1]]
    assert found == expected


def test_a_missing_beginning_is_found() -> None:
    report = verify_envelopes(_chain().envelopes[1:], keys(signer()))
    assert _whys(report) == [(2, "begins in mid-chain at record 2: records 1 to 1 are missing before it")]


def _key_lost() -> tuple[ChainMaker, ChainMaker]:
    """A chain of 16 records, and the one that goes on with another key."""
    old = _chain()
    return old, ChainMaker(chain="b" * 32, by=signer(2)).begin(after=old).play(1, 2)


@pytest.mark.parametrize("fast", [False, True])
def test_a_chain_that_ends_before_its_next_one_says_is_found(fast: bool) -> None:
    old, new = _key_lost()
    trusted = keys(signer(1), signer(2))
    whole = verify_envelopes(old.envelopes + new.envelopes, trusted, fast=fast)
    assert whole.ok, whole.problems
    cut = verify_envelopes(old.envelopes[:-6] + new.envelopes, trusted, fast=fast)
    (problem,) = cut.problems
    assert f"goes on after record 16 of chain {old.chain}, which ends here at record 10" in problem.why
    assert not verify_envelopes(new.envelopes + old.envelopes[:-1], trusted, fast=fast).ok


def test_a_chain_whose_one_before_is_not_there_is_noted() -> None:
    old, new = _key_lost()
    report = verify_envelopes(new.envelopes, keys(signer(2)))
    assert report.ok
    where = f"table r1, chain {new.chain}: goes on after record 16 of chain {old.chain}"
    assert report.notes == [f"{where}, which is not here"]


def test_a_chain_before_may_lack_its_beginning_and_not_its_end() -> None:
    old, new = _key_lost()
    starts = {old.chain: Start(8, sha256(old.envelopes[6]).hexdigest())}
    trusted = keys(signer(1), signer(2))
    assert verify_envelopes(old.envelopes[7:] + new.envelopes, trusted, starts=starts).ok
    assert not verify_envelopes(old.envelopes[7:-1] + new.envelopes, trusted, starts=starts).ok


def test_a_journal_that_lacks_the_end_of_a_lost_keys_chain_is_not_good(tmp_path: Path) -> None:
    old, new = _key_lost()
    for kept in (16, 15):
        path = tmp_path / f"{kept}.db"
        with closing(Journal.open(path)) as journal:
            journal.append([*old.entries[:kept], *new.entries])
        assert verify_journal(path, keys(signer(1), signer(2))).ok is (kept == 16)


def test_a_record_signed_anew_breaks_the_chain_behind_it() -> None:
    maker, other = _chain(), _chain()
    forged = ChainMaker().begin().play(1, 1)
    forged.add(Kind.ROUND, 2, body={"note": "changed by one who has the key"})
    data = [*maker.envelopes[:4], forged.envelopes[4], *other.envelopes[5:]]
    assert _whys(verify_envelopes(data)) == [(6, "its prev is not the digest of record 5")]


def test_a_number_that_nobody_signed_moves_nothing() -> None:
    maker = _chain()
    stranger = ChainMaker(by=signer(2))
    forged = stranger.add(Kind.INCIDENT, header={"seq": 1000})
    data = [*maker.envelopes[:7], forged, *maker.envelopes[7:]]
    report = verify_envelopes(data, keys(signer()))
    assert {problem.at for problem in report.problems} == {8}
    assert report.heads[maker.chain].seq == 16


def test_a_changed_payload_is_found_by_its_signature() -> None:
    maker = _chain()
    data = maker.envelopes
    payload, rest = data[7].split(b'","protected"')
    data[7] = payload[:-4] + b"AAA0" + b'","protected"' + rest
    report = verify_envelopes(data, keys(signer()))
    assert report.problems[0].at == 8


@given(record=st.integers(0, 15), place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_changed_byte_is_found_at_its_record(record: int, place: float, flip: int) -> None:
    data = _CHAIN.envelopes
    changed = bytearray(data[record])
    changed[int(place * len(changed))] ^= flip
    data[record] = bytes(changed)
    report = verify_envelopes(data, keys(signer()))
    assert not report.ok
    assert report.problems[0].at == record + 1


_CHAIN = _chain()


@given(data=st.lists(st.sampled_from(_CHAIN.envelopes), min_size=1, max_size=20))
def test_only_a_beginning_of_the_chain_is_right(data: list[bytes]) -> None:
    assert verify_envelopes(data, keys(signer())).ok == (data == _CHAIN.envelopes[: len(data)])


@given(data=st.lists(st.binary(max_size=60), min_size=1, max_size=5))
def test_rubbish_is_a_problem_and_no_traceback(data: list[bytes]) -> None:
    assert len(verify_envelopes(data).problems) == len(data)


def test_problems_are_bounded() -> None:
    report = verify_envelopes(b"rubbish" for _ in range(10 * PROBLEMS_MAX))
    assert len(report.problems) == PROBLEMS_MAX
    assert report.records == PROBLEMS_MAX


# --- what a header and a round may not be ----------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"v": 2}, "version 2 is not known"),
        ({"table": "r9"}, "the chain belongs to table r1 of site house"),
        ({"site": "elsewhere"}, "the chain belongs to table r1 of site house"),
        ({"kind": "jackpot"}, "kind 'jackpot' is not known"),
    ],
)
def test_headers_must_be_consistent(header: dict[str, object], why: str) -> None:
    maker = _chain(1)
    maker.add(Kind.INCIDENT, header=header)
    assert _whys(verify_envelopes(maker.envelopes)) == [(5, why)]


def test_a_chain_begins_with_its_key() -> None:
    maker = ChainMaker()
    maker.add(Kind.INCIDENT)
    assert _whys(verify_envelopes(maker.envelopes, keys(signer()))) == [
        (1, "the chain does not begin with its key")
    ]
    assert verify_envelopes(maker.envelopes).problems[0].why.startswith("no-key")


MANUAL = manual()
Step = tuple[Kind, int] | tuple[Kind, int, dict[str, object]]
GOOD_ROUNDS: dict[str, list[Step]] = {
    "void": [(Kind.ROUND, 1), (Kind.VOID, 1), (Kind.ROUND, 2), (Kind.RESULT, 2)],
    "unresolved, then void": [(Kind.ROUND, 1), (Kind.UNRESOLVED, 1), (Kind.INCIDENT, 1), (Kind.VOID, 1)],
    "unresolved, then by hand": [(Kind.ROUND, 1), (Kind.UNRESOLVED, 1), (Kind.RESULT, 1, MANUAL)],
    "unresolved over a restart": [(Kind.ROUND, 1), (Kind.UNRESOLVED, 1), (Kind.GAP, 0), (Kind.SESSION, 0)],
    "corrected": [(Kind.ROUND, 1), (Kind.RESULT, 1), (Kind.ROUND, 2), (Kind.CORRECTION, 1, correction())],
    "rejected throws": [
        (Kind.ROUND, 1),
        (Kind.THROW_REJECTED, 1),
        (Kind.THROW_REJECTED, 1),
        (Kind.RESULT, 1),
    ],
}
BAD_ROUNDS: dict[str, tuple[list[Step], str]] = {
    "two results": ([(Kind.ROUND, 1), (Kind.RESULT, 1), (Kind.RESULT, 1)], "second final record of round 1"),
    "result for a void": (
        [(Kind.ROUND, 1), (Kind.VOID, 1), (Kind.RESULT, 1)],
        "second final record of round 1",
    ),
    "void of a result": (
        [(Kind.ROUND, 1), (Kind.RESULT, 1), (Kind.VOID, 1)],
        "second final record of round 1",
    ),
    "result of nothing": ([(Kind.RESULT, 1)], "round 1 was never opened"),
    "result of no round": ([(Kind.RESULT, 0)], "round 0 was never opened"),
    "number again": (
        [(Kind.ROUND, 1), (Kind.VOID, 1), (Kind.ROUND, 1)],
        "round number 1 is used again; the last one was 1",
    ),
    "number back": (
        [(Kind.ROUND, 5), (Kind.VOID, 5), (Kind.ROUND, 4)],
        "round number 4 is used again; the last one was 5",
    ),
    "two open": ([(Kind.ROUND, 1), (Kind.ROUND, 2)], "round 2 is opened while round 1 has no final record"),
    "past unresolved": (
        [(Kind.ROUND, 1), (Kind.UNRESOLVED, 1), (Kind.ROUND, 2)],
        "round 2 is opened while round 1 has no final record",
    ),
    "on after unresolved": (
        [(Kind.ROUND, 1), (Kind.UNRESOLVED, 1), (Kind.BETS_CLOSED, 1)],
        "bets-closed of round 1, which is unresolved and can only be closed",
    ),
    "guess after unresolved": (
        [(Kind.ROUND, 1), (Kind.UNRESOLVED, 1), (Kind.RESULT, 1)],
        "automatic result of round 1, which is unresolved",
    ),
    "unresolved after the end": (
        [(Kind.ROUND, 1), (Kind.RESULT, 1), (Kind.UNRESOLVED, 1)],
        "unresolved of round 1, which is not open",
    ),
    "correction of an open round": (
        [(Kind.ROUND, 1), (Kind.CORRECTION, 1, correction())],
        "corrects round 1, which has no final record",
    ),
    "incident of a later round": ([(Kind.INCIDENT, 3)], "names round 3, which was never opened"),
}


def _played(steps: list[Step]) -> Report:
    maker = ChainMaker().begin()
    for kind, number, *body in steps:
        maker.add(kind, number, body[0] if body else decision())
    return verify_envelopes(maker.envelopes, keys(signer()))


@pytest.mark.parametrize("steps", GOOD_ROUNDS.values(), ids=GOOD_ROUNDS)
def test_rounds_that_keep_the_rules(steps: list[Step]) -> None:
    assert _played(steps).problems == []


@pytest.mark.parametrize(("steps", "why"), BAD_ROUNDS.values(), ids=BAD_ROUNDS)
def test_rounds_that_break_a_rule(steps: list[Step], why: str) -> None:
    assert _whys(_played(steps)) == [(len(steps) + 1, why)]


def test_a_result_without_evidence_is_no_result() -> None:
    maker = ChainMaker().begin()
    maker.add(Kind.ROUND, 1)
    maker.add(Kind.RESULT, 1, {"outcome": {"number": "17"}})
    (problem,) = verify_envelopes(maker.envelopes).problems
    assert "its body is not that of a result" in problem.why


def test_captures_at_hand_are_compared() -> None:
    maker = _chain(0).play(1, 3, b"frames")
    captures = {4: b"frames", 7: b"other frames"}
    report = verify_envelopes(maker.envelopes, capture_of=lambda _chain, seq: captures.get(seq))
    assert _whys(report) == [(7, "the raw capture is not the one that was signed")]
    assert report.captures == 1


# --- sources -------------------------------------------------------------------------------------


def test_json_lines() -> None:
    maker = _chain()
    lines = b"\n".join(maker.envelopes)
    for text in (lines, lines + b"\n"):
        assert verify_envelopes(envelopes_of_lines(io.BytesIO(text)), keys(signer())).records == 16
        assert verify_envelopes(envelopes_of_lines(io.BytesIO(text)), keys(signer())).ok
    for text in (lines[:-1], lines + b"\n\n", lines.replace(b"\n", b"\r\n"), b"A" * (ENVELOPE_MAX_BYTES + 9)):
        assert not verify_envelopes(envelopes_of_lines(io.BytesIO(text)), keys(signer())).ok


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    journal = Journal.open(path)
    journal.append(_chain(0).play(1, 40, b"frames").entries)
    journal.close()
    return path


def test_a_journal_file_is_verified_with_its_captures(journal_path: Path) -> None:
    report = verify_journal(journal_path, keys(signer()))
    assert report.problems == []
    assert (report.records, report.rounds, report.captures) == (121, 40, 40)


def test_a_journal_in_use_is_verified(journal_path: Path) -> None:
    journal = Journal.open(journal_path)
    journal.append(ChainMaker("r2", "b" * 32).begin().entries)
    assert verify_journal(journal_path, keys(signer())).records == 122
    journal.close()


def test_a_damaged_capture_is_a_problem(journal_path: Path) -> None:
    with sqlite3.connect(journal_path) as other:
        other.execute("UPDATE capture SET data = x'00' WHERE entry = 4")
    other.close()
    assert _whys(verify_journal(journal_path)) == [(4, "the raw capture is not the one that was signed")]


def test_a_file_that_is_no_journal_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(b"rubbish" * 100)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("rubbish", "empty", "none", "."):
        assert not verify_journal(tmp_path / name).ok


def test_b44_damage_of_a_journal_file_is_a_problem_and_no_traceback(journal_path: Path) -> None:
    whole = journal_path.read_bytes()
    dice = random.Random(44)
    seen = 0
    for _ in range(40):
        data = bytearray(whole)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        journal_path.write_bytes(data)
        report = verify_journal(journal_path, keys(signer()))
        seen += not report.ok
        if report.ok:  # the bit was in unused space, or in an index that the records do not need
            assert report.records == 121
    assert seen > 20
    journal_path.write_bytes(whole[: len(whole) // 2])
    assert not verify_journal(journal_path, keys(signer())).ok


def test_nothing_is_not_good() -> None:
    report = verify_envelopes([])
    assert not report.ok
    assert "nothing" in report.problems[0].why
