"""The command line: schema, import of journals and evidence files, and what operators do wrong."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tests.client.test_site_trust import file_of
from tests.support.archives import OpenStore, count
from tests.support.chains import SITE, ChainMaker, signer
from typer.testing import CliRunner, Result

from dollyd.client import SiteTrust
from dollyd.client.archive.service import Archive
from dollyd.client.archive.store import migrations
from dollyd.daemon.cli.archive import application
from dollyd.daemon.journal.store import Journal
from dollyd.wire.errors import ConfigError


@pytest.fixture(autouse=True)
def no_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers would keep the runner's stream, which is closed after its call."""
    monkeypatch.setattr("dollyd.daemon.cli.archive.configure_logging", lambda **_: None)


@pytest.fixture
def maker() -> ChainMaker:
    return ChainMaker().begin().play(1, 30)


@pytest.fixture
def journal(maker: ChainMaker, tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    with closing(Journal.open(path)) as writing:
        writing.append(maker.entries)
    return path


def archive(tmp_path: Path, *arguments: str, by: int = 1) -> Result:
    jwks = tmp_path / "keys.json"
    jwks.write_text(json.dumps({"keys": [signer(by).jwk]}))
    return CliRunner().invoke(application, ["--site", SITE, "--keys", str(jwks), *arguments])


def test_a_journal_is_imported_once(
    database: str, bare: OpenStore, journal: Path, tmp_path: Path, maker: ChainMaker
) -> None:
    told = [archive(tmp_path, "--database", database, "--import", str(journal)).stdout for _ in range(2)]
    whole = f"table r1, chain {maker.chain}: whole from 1 to 91\n"
    assert told == [f"91 records, 91 of them new\n{whole}", f"91 records, 0 of them new\n{whole}"]
    assert count(bare(), "records") == 91


def test_records_of_a_key_that_is_not_trusted_are_not_imported(
    database: str, bare: OpenStore, journal: Path, tmp_path: Path
) -> None:
    done = archive(tmp_path, "--database", database, "--import", str(journal), by=2)
    assert done.exit_code == 1
    assert done.stdout.endswith("refused: 91 (unknown-key)\n")
    assert count(bare(), "records") == 0


def test_the_schema_is_made_and_told(database: str, bare: OpenStore) -> None:
    said = [CliRunner().invoke(application, ["migrate", "--database", database]).stdout for _ in range(2)]
    steps = migrations(bare().dialect)
    taken = "".join(f"{step.version:04} {step.name}\n" for step in steps)
    assert said == [taken, "the schema is the newest one\n"]
    assert count(bare(), "schema_steps") == len(steps)


def test_the_trust_file_is_followed_while_the_archive_runs_and_taken_as_it_is_for_an_import(
    database: str, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[object] = []

    async def run(instance: Archive) -> None:
        followed.append(instance._site_trust)

    monkeypatch.setattr(Archive, "run", run)
    trust = tmp_path / "trust.json"
    given = ["--site", SITE, "--trust", str(trust), "--root", signer(8).kid, "--database", database]
    assert CliRunner().invoke(application, [*given, "--broker", "b:1"]).exit_code == 0
    (one,) = followed
    assert isinstance(one, SiteTrust)
    assert one.offer(file_of(1, 1))
    done = CliRunner().invoke(application, [*given, "--import", str(journal)])
    assert done.stdout.startswith("91 records, 91 of them new\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--database", "a.db"], "--broker"),
        (["--import", "no-such-file"], "--database"),
        (["--database", "a.db", "--import", "no-such-file"], "--import"),
        (["--database", "a.db", "--broker", "b:1", "--name", "NO"], "--name"),
        (["--database", "postgresql://nobody@/x?host=/no/such/directory", "--broker", "b:1"], "--database"),
    ],
)
def test_what_an_operator_does_wrong_is_told_in_one_line(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = archive(tmp_path, *arguments).exception
    assert isinstance(error, ConfigError)
    assert error.file == problem
    assert "\n" not in str(error)
