"""An evidence file of roulette B on another machine: all is derived but the proofs of a shared key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.daemon import Installation
from tests.support.evidence import a_chain, exported, fill
from tests.support.simulated import KEY, PERIOD_MS, SimulatedTable
from typer.testing import CliRunner, Result

from dollyd.daemon.cli import application
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.capture import engine_of
from dollyd.wire.record import Kind

EXIT_UNPROVEN = 4


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    made = Installation(tmp_path, "127.0.0.1:1", period_ms=PERIOD_MS, silence_ms=4 * PERIOD_MS)
    (tmp_path / "odds.key").write_bytes(KEY)
    return made


@pytest.fixture
def table(installation: Installation) -> SimulatedTable:
    """Some games by the installation's own rules, in virtual time."""
    table = SimulatedTable(3)
    table.engine = engine_of(load(installation.config).tables["r1"])
    table.start()
    while len(table.of_kind(Kind.RESULT)) < 3:
        table.run(20)
    return table


def replay(installation: Installation, table: SimulatedTable, *options: str) -> Result:
    fill(installation, a_chain(table.records, "r1", "a" * 32))
    file = installation.directory / "evening.tar"
    exported(installation, file)
    return CliRunner().invoke(application, ["replay", str(file), *options])


def test_all_is_derived_and_what_a_shared_key_proves_is_one_line(
    installation: Installation, table: SimulatedTable
) -> None:
    run = replay(installation, table)
    assert run.exit_code == EXIT_UNPROVEN, run.output
    derived, unproven = run.output.splitlines()
    assert ", 0 not" in derived
    assert " 0 decisions derived" not in derived
    assert unproven.startswith("not checked: the proofs of r1.odds: the key is in no evidence file")


def test_with_the_configuration_the_proofs_are_checked_too(
    installation: Installation, table: SimulatedTable
) -> None:
    run = replay(installation, table, "--config", str(installation.config))
    assert (run.exit_code, run.output.count("\n")) == (0, 1), run.output


def test_a_decision_that_a_wrong_proof_made_is_derived_too(
    installation: Installation, table: SimulatedTable
) -> None:
    table.box.faults.set("odds-bad-mac")
    while not table.of_kind(Kind.UNRESOLVED):
        table.run(20)
    run = replay(installation, table)
    assert run.exit_code == EXIT_UNPROVEN, run.output
    assert ", 0 not" in run.output


def test_another_decision_is_wrong_with_the_key_and_without(
    installation: Installation, table: SimulatedTable
) -> None:
    at, result = next((at, one) for at, one in enumerate(table.records) if one.kind is Kind.RESULT)
    body = result.body.replace(b'"table":1', b'"table":2') if b'"table":1' in result.body else b""
    assert body
    table.records[at] = replace(result, body=body)
    run = replay(installation, table)
    assert run.exit_code == 1, run.output
    assert ", 1 not" in run.output


def test_json_names_the_devices_and_play_never_goes_without_the_key(
    installation: Installation, table: SimulatedTable
) -> None:
    run = replay(installation, table, "--json")
    told = [json.loads(line) for line in run.output.splitlines()]
    assert {tuple(one["unproven"]) for one in told} == {("odds",)}
    devices = load(installation.config).tables["r1"].devices.values()
    assert not any(device.setup.unproven for device in devices)
