"""One line of the log for each record that a person wants to hear of, in words."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
import pytest
from tests.support.chains import decision
from tests.support.tables import TEXTS, game_setup
from typer.testing import CliRunner

from dollyd.daemon.cli import application
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.table.record_words import TOLD, outcome_in_words, words_of
from dollyd.wire.record import FINAL_KINDS, Kind

PERSONS = [{"operator": "d1", "role": "dealer", "command": ""}, {"operator": "p1", "role": "pit-boss"}]
SEVENTEEN = {"pocket": "17", "wheel_index": 8, "colour": "black"}
FIFTEEN = {"pocket": "15", "colour": "black"}


def fields(kind: str, **body: Any) -> dict[str, str | int]:
    words = words_of(kind, "r1", 12, body)
    assert words is not None
    assert words.warning is (kind == Kind.UNRESOLVED)
    return words.fields


def test_a_result_says_what_came() -> None:
    said = fields("result", outcome=SEVENTEEN, mode="auto")
    assert said == {"table": "r1", "round": 12, "outcome": "17 black", "mode": "auto"}
    said = fields("result", outcome=SEVENTEEN, mode="manual", reason="no sensor", approvals=PERSONS)
    assert (said["mode"], said["by"], said["why"]) == ("manual", "d1, p1", "no sensor")


def test_a_void_says_by_which_rule() -> None:
    said = fields("void", rule="declared", text="a coin", stake_policy="returned", declared_by="d1")
    assert said == {
        "table": "r1",
        "round": 12,
        "outcome": "does not count",
        "rule": "declared",
        "why": "a coin",
        "stakes": "returned",
        "by": "d1",
    }


def test_a_correction_says_what_counts_and_what_did() -> None:
    before, result = {"kind": "result", "outcome": FIFTEEN}, {"kind": "result", "outcome": SEVENTEEN}
    void = {"kind": "void", "rule": "declared", "stake_policy": "returned"}
    body = {"corrects": 58, "before": before, "reason": "the video", "approvals": PERSONS}
    assert fields("correction", **body, after=result)["outcome"] == "17 black, not 15 black"
    said = fields("correction", **body, after=void)
    assert (said["outcome"], said["corrects"]) == ("void by declared, not 15 black", 58)


def test_a_clock_says_how_far_it_moved_and_whether_somebody_vouches_for_it() -> None:
    dates = {"gaming_date": "2026-12-01", "gaming_date_before": "2026-11-30"}
    said = fields("clock", step_ns=108_000_000_000_000, cause="restart", **dates)
    assert said == {"table": "r1", "round": 12, "step_ms": 108_000_000, "why": "restart", **dates}
    said = fields("clock", step_ns=0, synchronised=False)
    assert said == {"table": "r1", "round": 12, "step_ms": 0, "synchronised": "false"}


def test_an_unresolved_round_is_a_warning_with_the_next_command() -> None:
    said = fields("unresolved", rule="device-lost", text="the wheel is gone")
    assert (said["rule"], said["why"]) == ("device-lost", "the wheel is gone")
    commands = str(said["next"]).split(", or ")
    assert [("void" in one, "enter" in one) for one in commands] == [(True, False), (False, True)]
    for command in commands:
        name, *words = shlex.split(command)
        answer = CliRunner().invoke(application, [*words, "--help"])
        assert (name, answer.exit_code) == ("dollyd", 0), answer.output
        assert "--round 12" in command


def test_an_incident_names_its_device() -> None:
    said = fields("incident", what="device-stale", device="wheel", text="silent", details={})
    assert said == {"table": "r1", "round": 12, "what": "device-stale", "device": "wheel", "why": "silent"}
    assert "device" not in fields("incident", what="inspected", text="good", details={})


def test_every_record_that_ends_a_round_has_a_line_and_chatter_has_none() -> None:
    assert FINAL_KINDS | {Kind.CORRECTION, Kind.UNRESOLVED} <= TOLD
    assert words_of("checkpoint", "r1", 0, decision()) is None


@pytest.mark.parametrize("name", list(TEXTS))
def test_different_outcomes_of_every_game_have_different_words(name: str) -> None:
    setup = game_setup(name)
    values = setup.game.values(setup.layout)
    words = set()
    for value in values:
        outcome = setup.game.outcome(Drawn(value, setup.variant, setup.layout, (), quarters=False))
        line = outcome_in_words(msgspec.json.decode(msgspec.json.encode(outcome)))
        assert all(part in line for part in value), line
        assert len(line) < 40
        words.add(line)
    assert len(words) == len(values)
