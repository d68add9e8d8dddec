"""`dollyd show`: every record in a line that a person understands, and what is wrong with it below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.chains import ChainMaker, signer
from tests.support.journals import evidence_of, journal_of
from tools.schemas.evening import whole_evening
from typer.testing import CliRunner, Result

from dollyd.client.proof.verify import verify_envelopes
from dollyd.daemon.cli import application
from dollyd.daemon.evidence.record_lines import line_of
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import BODIES, Kind

EVENING = whole_evening()


def lines(path: Path, envelopes: list[bytes]) -> Path:
    path.write_bytes(b"".join(envelope + b"\n" for envelope in envelopes))
    return path


def show(file: Path | str, *options: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(application, ["show", str(file), *options], input=stdin)


def keys_file(path: Path, *numbers: int) -> str:
    path.write_text(json.dumps({"keys": [signer(number).jwk for number in numbers]}))
    return str(path)


def records() -> list[dict[str, Any]]:
    return [json.loads(parse_envelope(envelope).payload) for envelope in EVENING.envelopes]


def test_every_kind_of_record_has_a_line_in_words() -> None:
    told = {record["kind"]: line_of(record) for record in records()}
    assert told.keys() == BODIES.keys()
    for kind, line in told.items():
        said = line.partition(f"{kind}")[2]
        assert "does not know" not in said, kind
        assert "not in the form" not in said, kind
        assert "{" not in said, kind
    assert told[Kind.RESULT].startswith("2026-11-29 18:41:20Z  r1 ")
    assert "result round 3: 28 black, mode auto, gaming date 2026-11-29" in told[Kind.RESULT]
    assert "opened by d1: roulette A, rulebook fi-ray-2013-roulette" in told[Kind.SESSION]


@pytest.mark.parametrize("junk", [{}, {"event": 1}, [], "text", {"outcome": []}])
def test_a_body_that_is_not_in_its_form_is_said_to_be_so(junk: Any) -> None:
    for record in records():
        assert "\n" not in line_of(record | {"body": junk})
    assert "not in the form" in line_of(records()[-2] | {"body": junk})


@pytest.mark.parametrize("form", ["lines", "journal", "evidence", "stdin"])
def test_records_of_every_kind_of_file_are_shown_and_verified(form: str, tmp_path: Path) -> None:
    trusted = keys_file(tmp_path / "keys.json", 1)
    data = b"".join(envelope + b"\n" for envelope in EVENING.envelopes)
    chain = ChainMaker().begin().play(1, 2)
    if form == "journal":
        run = show(journal_of(tmp_path / "journal.db", EVENING), "--keys", trusted)
    elif form == "evidence":
        run = show(evidence_of(tmp_path / "evening.tar", chain, b""), "--unpinned")
    elif form == "stdin":
        run = show("-", "--keys", trusted, stdin=data)
    else:
        run = show(lines(tmp_path / "records.jsonl", EVENING.envelopes), "--keys", trusted)
    told = run.output.splitlines()
    if form == "evidence":
        assert sum(" result round " in line for line in told) == 2, run.output
        return
    assert (run.exit_code, told[-1]) == (0, "good"), run.output
    assert len(told) == len(EVENING.envelopes) + 1


def test_a_part_of_a_chain_is_shown_and_without_keys_nobody_vouches(tmp_path: Path) -> None:
    run = show(lines(tmp_path / "r.jsonl", EVENING.envelopes[4:8]), "--keys", keys_file(tmp_path / "k", 1))
    assert run.exit_code == 0, run.output
    whole = lines(tmp_path / "w.jsonl", EVENING.envelopes)
    assert (show(whole).exit_code, show(whole, "--unpinned").exit_code) == (3, 0)


def test_what_is_wrong_stands_below_its_record_for_every_record(tmp_path: Path) -> None:
    chain = ChainMaker(by=signer(9)).begin().play(1, 1)
    run = show(lines(tmp_path / "r.jsonl", chain.envelopes), "--keys", keys_file(tmp_path / "k", 1))
    told = run.output.splitlines()
    assert run.exit_code == 1
    assert told[-1] == "NOT GOOD"
    for shown, below in zip(told[:-1:2], told[1:-1:2], strict=True):
        assert "  r1 " in shown
        assert below.startswith("  WRONG: unknown-key: "), run.output


def test_a_line_that_is_none_is_told_and_the_next_is_shown(tmp_path: Path) -> None:
    data = [EVENING.envelopes[0], b"\x1b[2J", EVENING.envelopes[1]]
    run = show(lines(tmp_path / "r.jsonl", data), "--keys", keys_file(tmp_path / "k", 1))
    assert run.exit_code == 1
    assert "WRONG: no record" in run.output
    assert "session: opened" in run.output
    assert "\x1b" not in run.output


def test_json_has_each_record_whole(tmp_path: Path) -> None:
    run = show(lines(tmp_path / "r.jsonl", EVENING.envelopes), "--json", "--unpinned")
    told = [json.loads(line) for line in run.output.splitlines()]
    assert [one["record"] for one in told] == records()
    assert all(one["wrong"] == [] for one in told)


def test_a_record_is_told_before_the_next_one_has_come() -> None:
    """So that a pipe from the broker is shown as it plays."""
    told: list[int] = []
    before: list[int] = []

    def coming() -> Any:
        for number, envelope in enumerate(EVENING.envelopes):
            before.append(len(told) - number)
            yield envelope

    verify_envelopes(coming(), judged=lambda _, found, __: told.append(found.seq))
    assert set(before) == {0}
