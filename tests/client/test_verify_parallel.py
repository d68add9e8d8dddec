"""Several processes, and the fast way: the same report, and what the fast way still finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import pytest
from tests.support.chains import ChainMaker, decision, envelope_of, header, keys, signer
from tests.support.commands import correction

from dollyd.client.proof import parallel
from dollyd.client.proof.sources import SourceError
from dollyd.client.proof.verify import PROBLEMS_MAX, Report, Start, verify_envelopes
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind

Envelopes = list[bytes]


def _chain() -> ChainMaker:
    """A chain in which the key changes, long enough for several batches."""
    maker = ChainMaker().begin().play(1, 40)
    maker.add(Kind.KEY, body={"event": "rotated", "jwk": signer(2).jwk, "reason": "rotation"})
    maker.signer = signer(2)
    maker.play(41, 70)
    body = {"reason": "hourly", "seq": maker.seq, "head": maker.prev, "finals": 70}
    maker.add(Kind.CHECKPOINT, body=body)
    return maker.play(71, 80)


CHAIN = _chain().envelopes


def _spoilt(data: bytes, place: float) -> bytes:
    changed = bytearray(data)
    changed[int(place * len(data))] ^= 1
    return bytes(changed)


def _failing(data: Envelopes) -> Iterator[bytes]:
    yield from data[:150]
    raise SourceError("the disk is gone")


INPUTS: dict[str, Callable[[], Any]] = {
    "good": lambda: CHAIN,
    "hole": lambda: CHAIN[:100] + CHAIN[103:],
    "doubled and moved": lambda: [*CHAIN[:90], CHAIN[10], *CHAIN[91:], CHAIN[90]],
    "signatures": lambda: [_spoilt(data, 0.9) if n % 41 == 7 else data for n, data in enumerate(CHAIN)],
    "payloads": lambda: [_spoilt(data, 0.1) if n % 43 == 9 else data for n, data in enumerate(CHAIN)],
    "rubbish": lambda: [b"rubbish" if n % 37 == 5 else data for n, data in enumerate(CHAIN)],
    "rubbish without end": lambda: [*CHAIN[:50], *[b"rubbish"] * (2 * PROBLEMS_MAX)],
    "key not announced": lambda: CHAIN[:121] + CHAIN[122:],
    "source that fails": lambda: _failing(CHAIN),
    "old key signs on": lambda: [*CHAIN, ChainMaker().begin().envelopes[0]],
}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "READ_HERE", 30)
    monkeypatch.setattr(parallel, "_BATCH", 16)


@pytest.fixture
def same_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes that serve one verification after the other."""
    with parallel._Readers(2) as readers:
        monkeypatch.setattr(parallel, "_Readers", lambda _: nullcontext(readers))
        yield


@pytest.mark.usefixtures("small_batches", "same_processes")
def test_the_report_does_not_depend_on_the_number_of_processes() -> None:
    for name, data in INPUTS.items():
        for trusted in (keys(signer(1)), None):
            one, two = (verify_envelopes(data(), trusted, jobs=jobs) for jobs in (1, 2))
            assert asdict(one) == asdict(two), name
            assert one.ok == (name == "good"), name


def test_a_process_that_ends_is_told_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "READ_HERE", 30)
    monkeypatch.setattr("sys.executable", "/bin/false")
    (problem,) = verify_envelopes(CHAIN, keys(signer(1)), jobs=2).problems
    assert "a process that checks signatures" in problem.why


# --- the fast way ----------------------------------------------------------------------------------


def _fast(data: Envelopes, trusted: Any = None) -> Report:
    return verify_envelopes(data, trusted or keys(signer(1)), fast=True)


def test_the_fast_way_says_what_it_did_not_check() -> None:
    report = _fast(CHAIN)
    assert report.ok
    assert report.records == len(CHAIN)
    assert "not checked" in report.notes[-1]
    slow = verify_envelopes(CHAIN, keys(signer(1)))
    assert (report.heads, report.rounds, report.kinds) == (slow.heads, slow.rounds, slow.kinds)
    assert slow.notes == []


@pytest.mark.parametrize("at", [0, 60, 121, 212, len(CHAIN) - 1])
@pytest.mark.parametrize("place", [0.02, 0.3, 0.98])
def test_the_fast_way_finds_any_change(at: int, place: float) -> None:
    assert not _fast([*CHAIN[:at], _spoilt(CHAIN[at], place), *CHAIN[at + 1 :]]).ok


def test_the_fast_way_finds_a_hole_and_a_stranger() -> None:
    assert not _fast(CHAIN[:100] + CHAIN[101:]).ok
    assert not _fast(CHAIN, keys(signer(2))).ok


def test_the_fast_way_finds_a_head_that_nobody_signed() -> None:
    cut = CHAIN[:100]
    last, other = cut[-1], cut[-2]
    signature = b'","signature":"'
    forged = last.split(signature)[0] + signature + other.split(signature)[1]
    (problem,) = _fast([*cut[:-1], forged]).problems
    assert "the head of the chain: signature" in problem.why


def test_the_fast_way_reads_a_header_strictly() -> None:
    maker = ChainMaker().begin()
    payload = parse_envelope(maker.add(Kind.INCIDENT)).payload
    twice = envelope_of(header(), payload.replace(b'"seq":2,', b'"seq":2,"seq":2,'))
    maker.prev = sha256(twice).hexdigest()
    after = maker.add(Kind.INCIDENT)
    report = _fast([maker.envelopes[0], twice, after])
    assert report.problems[0].at == 2
    assert "duplicate-key" in report.problems[0].why


# --- a part of a chain -----------------------------------------------------------------------------


def _from(maker: ChainMaker, seq: int) -> Report:
    prev = sha256(maker.envelopes[seq - 2]).hexdigest()
    return verify_envelopes(maker.envelopes[seq - 1 :], starts={maker.chain: Start(seq, prev)}, keys=KEYS)


KEYS = keys(signer(1))


def test_a_part_may_begin_anywhere_in_a_round() -> None:
    maker = ChainMaker().begin().play(1, 3)
    maker.add(Kind.CORRECTION, 1, correction(corrects=4))
    for seq in range(2, 12):
        report = _from(maker, seq)
        assert report.problems == []
        assert report.heads[maker.chain].first == seq


def test_a_part_keeps_the_rules_from_where_it_is_known() -> None:
    maker = ChainMaker().begin().play(1, 2)
    maker.add(Kind.RESULT, 2, decision())
    for seq in (3, 5, 7):
        (problem,) = _from(maker, seq).problems
        assert problem.why == "second final record of round 2"


def test_a_part_that_does_not_begin_as_told_is_no_part() -> None:
    maker = ChainMaker().begin().play(1, 3)
    whole = maker.envelopes
    start = {maker.chain: Start(4, sha256(whole[2]).hexdigest())}
    assert verify_envelopes(whole[3:], KEYS, starts=start).ok
    assert not verify_envelopes(whole[4:], KEYS, starts=start).ok
    assert not verify_envelopes(whole[2:], KEYS, starts=start).ok
    assert not verify_envelopes(whole[3:], KEYS, starts={maker.chain: Start(4, "0" * 64)}).ok
