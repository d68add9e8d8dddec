"""What `dollyd verify` says to people, and with which exit code."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.chains import ChainMaker, signer
from typer.testing import CliRunner, Result

from dollyd.daemon.cli import application
from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import ConfigError

VECTORS = Path(__file__).resolve().parents[2] / "docs" / "vectors"
EVENING, KEYS = VECTORS / "good-evening.jsonl", ("--keys", VECTORS / "keys.json")
UNVOUCHED = "consistent, but nobody vouches for the key"


def verify(*arguments: str | Path, given: bytes | None = None) -> Result:
    return CliRunner().invoke(application, ["verify", *map(str, arguments)], input=given)


def test_without_keys_a_file_is_consistent_and_no_more(tmp_path: Path) -> None:
    forged = tmp_path / "forged.jsonl"
    made_up = ChainMaker(by=signer(9)).begin().play(1, 3)
    forged.write_bytes(b"".join(line + b"\n" for line in made_up.envelopes))
    said = verify(forged)
    assert (said.exit_code, said.stdout.splitlines()[-1]) == (3, UNVOUCHED)
    assert "good" not in said.stdout
    assert verify(forged, "--unpinned").exit_code == 0
    assert verify("-", given=forged.read_bytes()).exit_code == 3
    assert verify(forged, *KEYS).exit_code == 1
    told = verify(forged, "--json")
    report = json.loads(told.stdout)
    assert (told.exit_code, report["ok"], report["vouched"]) == (3, True, False)


def test_with_keys_it_is_good_and_ends_with_what_people_ask() -> None:
    said = verify(EVENING, *KEYS)
    assert said.exit_code == 0
    assert said.stdout.splitlines()[-5:] == [
        "site house; tables r1",
        "from 2026-11-29T18:41:20.000000005Z to 2026-11-29T18:41:20.000000005Z, as the records say",
        "decided by hand: i1 (inspector): 1, p1 (pit-boss): 1",
        "clock: off by 10 microseconds at most",
        "good",
    ]
    report = json.loads(verify(EVENING, *KEYS, "--json").stdout)
    assert report["vouched"] is True
    assert report["persons"] == {"i1 (inspector)": 1, "p1 (pit-boss)": 1}


def test_ten_faults_are_told_and_no_more(tmp_path: Path) -> None:
    lines = EVENING.read_bytes().splitlines(keepends=True)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(lines[0] + b"".join(b"x\n" for _ in range(200)))
    said = verify(damaged, *KEYS)
    assert said.exit_code == 1
    assert said.stdout.count("WRONG") == 10
    assert "and no further: 10 faults are told" in said.stdout


@pytest.mark.parametrize(
    "content", [b"", b"# A text\n" * 50, b"\x00" * 4000, b"PK\x03\x04" + bytes(600), b"{}\n"]
)
def test_a_wrong_file_gets_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    said = verify(path, *KEYS)
    assert said.exit_code == 1
    assert len(said.output.splitlines()) == 1
    assert said.output.startswith(f"{path}: ")


def test_the_middle_of_a_chain_is_told_once_and_judged_with_part(tmp_path: Path) -> None:
    chain = ChainMaker().begin().play(1, 30)
    middle = tmp_path / "middle.jsonl"
    middle.write_bytes(b"".join(line + b"\n" for line in chain.envelopes[57:]))
    said = verify(middle, *KEYS)
    assert said.exit_code == 1
    assert said.stdout.count("WRONG") == 1
    assert "begins in mid-chain at record 58: records 1 to 57 are missing before it" in said.stdout
    assert "--part" in said.stdout
    part = verify(middle, *KEYS, "--part")
    assert part.exit_code == 0, part.stdout
    assert "starts at seq 58" in part.stdout
    middle.write_bytes(b"".join(line + b"\n" for line in [*chain.envelopes[57:60], *chain.envelopes[61:]]))
    assert verify(middle, *KEYS, "--part").exit_code == 1


def test_a_root_alone_takes_an_evidence_file(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with closing(Journal.open(journal)) as opened:
        opened.append(ChainMaker().begin().entries)
    for file in (journal, EVENING, Path("-")):
        said = verify(file, "--root", signer(1).kid)
        assert isinstance(said.exception, ConfigError)
        assert "--root: is no evidence file, and only such a one has a trust file" in str(said.exception)
        assert "--trust" in str(said.exception)
