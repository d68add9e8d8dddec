"""The short verifiers of `examples` accept what dollyd writes, and nothing that was changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.support.chains import ChainMaker, signer

from dollyd.daemon.core.record import Kind

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = {
    "verify.py": [sys.executable],
    "verify.sh": ["bash"],
}

Verify: TypeAlias = Callable[[list[bytes]], subprocess.CompletedProcess[str]]


@pytest.fixture(params=PROGRAMS)
def verify(request: pytest.FixtureRequest, tmp_path: Path) -> Verify:
    program = PROGRAMS[request.param]
    tools = [program[0], "openssl"] if request.param == "verify.sh" else [program[0]]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    keys, records = tmp_path / "keys.json", tmp_path / "records.jsonl"
    keys.write_text(json.dumps({"keys": [signer(1).jwk, signer(2).jwk]}, indent=2))

    def run(envelopes: list[bytes]) -> subprocess.CompletedProcess[str]:
        records.write_bytes(b"".join(envelope + b"\n" for envelope in envelopes))
        command = [*program, str(EXAMPLES / request.param), str(keys), str(records)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


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
