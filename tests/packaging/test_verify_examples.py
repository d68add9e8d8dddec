"""The short verifiers of `examples` accept what dollyd writes, and nothing that was changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.support.chains import ChainMaker, envelope_of, header, keys, signer

from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VECTORS = EXAMPLES.parent / "docs" / "vectors"
PROGRAMS = {
    "verify.py": [sys.executable],
    "verify.sh": ["bash"],
}

Verify: TypeAlias = Callable[[list[bytes]], subprocess.CompletedProcess[str]]


@pytest.fixture(params=PROGRAMS)
def verify_file(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[bytes], subprocess.CompletedProcess[str]]:
    program = PROGRAMS[request.param]
    tools = [program[0], "openssl"] if request.param == "verify.sh" else [program[0]]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    keys, records = tmp_path / "keys.json", tmp_path / "records.jsonl"
    keys.write_text(json.dumps({"keys": [signer(1).jwk, signer(2).jwk]}, indent=2))

    def run(data: bytes) -> subprocess.CompletedProcess[str]:
        records.write_bytes(data)
        command = [*program, str(EXAMPLES / request.param), str(keys), str(records)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture
def verify(verify_file: Callable[[bytes], subprocess.CompletedProcess[str]]) -> Verify:
    return lambda envelopes: verify_file(b"".join(envelope + b"\n" for envelope in envelopes))


@pytest.fixture
def envelopes() -> list[bytes]:
    """Two tables, their records mixed as on the wire."""
    one, two = ChainMaker(), ChainMaker("r2", "b" * 32, signer(2))
    for chain in (one, two):
        chain.begin().add(Kind.ROUND, 1)
        outcome = {"pocket": "28", "colour": "black"}
        chain.add(Kind.RESULT, 1, {"outcome": outcome, "evidence": {"chain": "c", "prev": "d"}})
    return [envelope for pair in zip(one.envelopes, two.envelopes, strict=True) for envelope in pair]


def test_what_dollyd_writes_is_good(verify: Verify, envelopes: list[bytes]) -> None:
    said = verify(envelopes)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == "good: 6 records in 2 chains"


def test_a_late_comer_begins_in_the_middle(verify: Verify, envelopes: list[bytes]) -> None:
    assert verify(envelopes[2:]).returncode == 0


@pytest.mark.parametrize("part", ["payload", "protected", "signature"])
def test_a_changed_part_is_seen(verify: Verify, envelopes: list[bytes], part: str) -> None:
    members = json.loads(envelopes[-1])
    middle = len(members[part]) // 2
    other = "A" if members[part][middle] != "A" else "B"
    members[part] = members[part][:middle] + other + members[part][middle + 1 :]
    said = verify([*envelopes[:-1], json.dumps(members, separators=(",", ":")).encode()])
    assert said.returncode == 1
    assert said.stderr.startswith("WRONG: record 6: ")


def test_a_missing_record_is_seen(verify: Verify, envelopes: list[bytes]) -> None:
    said = verify(envelopes[:2] + envelopes[3:])
    assert said.returncode == 1
    assert said.stderr == "WRONG: record 4: does not follow record 1 of its chain\n"


def test_a_record_in_the_place_of_another_is_seen(verify: Verify, envelopes: list[bytes]) -> None:
    other = ChainMaker().begin()
    replaced = other.add(Kind.ROUND, 2)
    said = verify([envelopes[0], replaced, envelopes[4]])
    assert said.returncode == 1


def test_nothing_is_not_good(verify: Verify) -> None:
    said = verify([])
    assert (said.returncode, said.stderr) == (1, "WRONG: no records\n")


def test_another_key_is_not_trusted(verify: Verify) -> None:
    said = verify(ChainMaker(by=signer(3)).begin().envelopes)
    assert said.returncode == 1
    assert said.stderr.startswith("WRONG: record 1: ")


# --- whoever hands over a folder ------------------------------------------------------------------


def test_attack_6_a_kid_is_never_a_path(tmp_path: Path) -> None:
    """`kid` leads to a key of the forger beside the records; nobody who is trusted has signed one byte."""
    forger, folder = signer(9), tmp_path / "folder"
    folder.mkdir()
    (folder / "keys.json").write_text(json.dumps({"keys": [signer(1).jwk]}, indent=2))
    raw = keys(forger)[forger.kid].public_bytes_raw()
    for name in ("records.key", "keys.key"):
        (folder / name).write_bytes(bytes.fromhex("302a300506032b6570032100") + raw)
    honest = ChainMaker(by=forger).begin().envelopes[0]
    payload = parse_envelope(honest).payload
    for kid in ("../../proc/self/cwd/records", f"../..{folder}/records", "./../../proc/self/cwd/keys"):
        line = envelope_of(header(kid=kid), payload, forger)
        (folder / "records.jsonl").write_bytes(line + b"\n")
        for name, program in PROGRAMS.items():
            run = subprocess.run(
                [*program, str(EXAMPLES / name), "keys.json", "records.jsonl"],
                capture_output=True, text=True, check=False, timeout=60, cwd=folder,
            )  # fmt: skip
            assert run.returncode == 1, (name, kid, run.stdout)
            assert run.stderr.startswith("WRONG: record 1: "), (name, kid, run.stderr)


def test_attack_6_a_last_line_without_its_end_is_read_or_refused(
    verify_file: Callable[[bytes], subprocess.CompletedProcess[str]], envelopes: list[bytes]
) -> None:
    forged = envelopes[-1].replace(b'"signature":"', b'"signature":"AAAA')
    for end in (forged, envelopes[-1][:-9], b"x", b"\x00", b" "):
        said = verify_file(b"".join(line + b"\n" for line in envelopes[:-1]) + end)
        assert (said.returncode, said.stdout.count("good")) == (1, 0), (end, said.stdout)
        assert said.stderr.startswith("WRONG: ")


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:30] + b"\x00" + line[30:],
        lambda line: line + b"\x00",
        lambda line: line + b"\r",
        lambda line: b" " + line,
        lambda line: line.replace(b'"payload"', b'"Payload"'),
        lambda line: line.replace(b'"protected"', b'"header"'),
        lambda line: line.replace(b'"signature"', b'"signatures"'),
        lambda line: line[:-1] + b',"signature":"AAAA"}',
        lambda line: line[:-1] + b',"header":{"kid":"%s"}}' % signer(2).kid.encode(),
        lambda line: line.replace(b'":"', b'": "', 1),
    ],
    ids=[
        "nul",
        "nul-behind",
        "cr",
        "space",
        "payload",
        "protected",
        "signature",
        "twice",
        "header",
        "spaced",
    ],
)
def test_attack_6_what_is_hashed_is_what_is_in_the_file(
    verify: Verify, envelopes: list[bytes], change: Callable[[bytes], bytes]
) -> None:
    """An envelope has one form, to the byte."""
    said = verify([*envelopes[:-1], change(envelopes[-1])])
    assert (said.returncode, said.stdout.count("good: ")) == (1, 0)
    assert said.stderr.startswith("WRONG: ")


SMALL_ORDER = (
    "AQ" + "A" * 41,
    "A" * 43,
    "7P_______________________________________38",
    "7v_______________________________________38",
    "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU",
)
"""`x` of keys for which anybody can sign."""


@pytest.mark.parametrize("x", SMALL_ORDER)
def test_a_key_for_which_anybody_can_sign_is_refused(tmp_path: Path, x: str) -> None:
    keys, records = tmp_path / "keys.json", tmp_path / "records.jsonl"
    keys.write_text(json.dumps({"keys": [signer(1).jwk, {"kty": "OKP", "crv": "Ed25519", "x": x}]}))
    records.write_bytes(ChainMaker().begin().envelopes[0] + b"\n")
    for name, program in PROGRAMS.items():
        command = [*program, str(EXAMPLES / name), str(keys), str(records)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert run.returncode == 1, name
        assert run.stderr.startswith("WRONG: not a key "), (name, run.stderr)


NO_ROUNDS = "does not follow rounds"
NO_BODIES = "does not look into the bodies of decisions and checkpoints"
LATE = "may be given a chain from its middle"
NO_ENDS = "does not hold the end of a chain against the one after it"
NO_JSON = "reads the head of a record only, and not what JSON is behind it"
EITHER: dict[str, str] = {
    "bad-begins-in-the-middle": LATE,
    "bad-end-before-the-next-chain": NO_ENDS,
    "bad-goes-on-behind-its-end": NO_ENDS,
    "bad-second-chain-names-none": NO_ENDS,
    "bad-two-chains-after-one": NO_ENDS,
    "bad-after-a-chain-of-another-table": NO_ENDS,
    "bad-second-final-record": NO_ROUNDS,
    "bad-void-after-result": NO_ROUNDS,
    "bad-result-of-no-round": NO_ROUNDS,
    "bad-round-number-again": NO_ROUNDS,
    "bad-correction-of-no-round": NO_ROUNDS,
    "bad-round-never-opened": NO_ROUNDS,
    "bad-automatic-result-of-unresolved": NO_ROUNDS,
    "bad-checkpoint-head": NO_BODIES,
    "bad-checkpoint-count": NO_BODIES,
    "bad-result-without-evidence": NO_BODIES,
}
NO_PERSONS = "does not know who has decided by hand, nor what it must fit"
"""Of every vector whose reason is `persons`."""
TAKEN = {
    "verify.sh": EITHER | {"bad-duplicate-key-inside": NO_JSON},
    "verify.py": EITHER | {"bad-nested-too-deep": "does not count levels"},
}
"""All that the short verifiers take and the whole ones refuse, and why. It is never who signed what."""
REFUSED = {"verify.sh": {"good-spaces-in-a-payload"}, "verify.py": set[str]()}
"""What they refuse and the whole ones take: a record as dollyd never writes it."""


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_attack_6_of_every_vector_short_means_lenient_in_form_and_never_in_who_signed(name: str) -> None:
    if name == "verify.sh" and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    expected = json.loads((VECTORS / "expected.json").read_text("ascii"))

    def takes(file: str) -> bool:
        command = [*PROGRAMS[name], str(EXAMPLES / name), str(VECTORS / "keys.json"), str(VECTORS / file)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert run.returncode == 0 or run.stderr.startswith("WRONG: "), (file, run.stderr)
        return run.returncode == 0

    with ThreadPoolExecutor(2) as pool:
        taken = list(pool.map(takes, [wanted["file"] for wanted in expected]))
    good = {one["file"].removesuffix(".jsonl") for one, took in zip(expected, taken, strict=True) if took}
    really = {one["file"].removesuffix(".jsonl") for one in expected if one["verdict"] == "good"}
    reasons = {one["file"].removesuffix(".jsonl"): one.get("reason") for one in expected}
    decided = {one for one, reason in reasons.items() if reason == "persons"}  # `NO_PERSONS`
    assert good - really == TAKEN[name].keys() | decided
    assert really - good == REFUSED[name]
    assert {reasons[one] for one in TAKEN[name]} <= {"payload", "chain", "body", "round"}
