"""A table that waits for people is told by the doctor, with the next command to type."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from tests.support.journals import journal_of
from tools.schemas.evening import UNRESOLVED, VOID, Evening

from dollyd.daemon.cli.table import application
from dollyd.daemon.core.void_rules import INSPECTED_AFTER
from dollyd.daemon.doctor.case import Finding
from dollyd.wire.record import IncidentBody, Kind

if TYPE_CHECKING:
    from tests.daemon.doctor.conftest import Bench

INSPECTED = IncidentBody(what="inspected", text="found good", details={})


def blocked() -> Evening:
    chain = Evening().open().result(1).bet(2)
    return chain.say(Kind.UNRESOLVED, 2, UNRESOLVED)


def to_be_inspected() -> Evening:
    void = structs.replace(VOID, rule=min(INSPECTED_AFTER))
    return Evening().open().bet(1).say(Kind.VOID, 1, void)


def told(bench: Bench, chain: Evening) -> list[Finding]:
    journal_of(bench.home / "journal.db", chain).chmod(0o660)
    return bench.findings()


def is_a_command(remedy: str) -> bool:
    """Whether all that is to be typed is an order that `dollyd table` has."""
    orders = remedy.split(": ", 1)[-1].split(", or ")
    known = {command.name for command in application.registered_commands}
    return all(
        shlex.split(order)[:3] == ["dollyd", "table", "--config"] and known & set(shlex.split(order))
        for order in orders
    )


def test_a_blocked_table_is_told_with_the_next_command(bench: Bench) -> None:
    (only,) = told(bench, blocked())
    assert only.id == "table-blocked"
    assert "table r1 is blocked: round 2 is unresolved by data-gap" in only.what
    assert f"--config {bench.config} --table r1 " in only.remedy
    assert " void --round 2 " in only.remedy
    assert " enter VALUE --round 2 " in only.remedy
    assert is_a_command(only.remedy)


def test_a_table_that_waits_for_an_inspection_is_told(bench: Bench) -> None:
    (only,) = told(bench, to_be_inspected())
    assert only.id == "table-inspection"
    assert min(INSPECTED_AFTER) in only.what
    assert only.remedy.endswith(" inspected")
    assert is_a_command(only.remedy)


@pytest.mark.parametrize(
    "chain",
    [
        blocked().say(Kind.VOID, 2, VOID),
        to_be_inspected().say(Kind.INCIDENT, 0, INSPECTED),
        Evening().open().bet(1),
    ],
    ids=["void", "inspected", "in-play"],
)
def test_a_table_that_people_have_freed_has_no_finding(bench: Bench, chain: Evening) -> None:
    assert told(bench, chain) == []
