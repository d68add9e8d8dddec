"""The commands of somebody who may not look into the service's folders: a line, and no traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.daemon import Installation
from tests.support.journals import filled
from tests.support.rights import NO_ROOT, dollyd_as_nobody, open_folder

pytestmark = pytest.mark.skipif(bool(NO_ROOT), reason=NO_ROOT)
COMMANDS = ("check", "doctor", "wait-for-pause")


@pytest.fixture
def installation() -> Iterator[Installation]:
    """The key is a credential, and the journal lies in a folder as the package makes it."""
    with open_folder() as folder:
        installation = Installation(folder, "127.0.0.1:1", variant="A")
        (folder / "state").mkdir(mode=0o750)
        filled(folder / "state/journal.db", rounds=1)
        installation.reconfigure("/journal.db", "/state/journal.db")
        credential = "/run/credentials/dollyd.service/dollyd_signing.pem"
        installation.reconfigure(str(installation.signing_key), credential)
        (folder / "r1-wheel").symlink_to("/dev/null")
        yield installation


@pytest.mark.parametrize("command", COMMANDS)
def test_a_journal_in_a_closed_folder(installation: Installation, command: str) -> None:
    done = dollyd_as_nobody(command, "--config", installation.config)
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if command == "doctor" else 78)
    told = done.stdout + done.stderr
    assert f"{installation.directory}/state/journal.db is hidden from you" in told
    assert "run this as root" in told


@pytest.mark.parametrize("command", ["run", "wait-for-pause"])
def test_a_configuration_that_may_not_be_read(installation: Installation, command: str) -> None:
    installation.config.chmod(0o640)
    done = dollyd_as_nobody(command, "--config", installation.config)
    assert done.returncode == 78, done.stderr
    assert done.stderr.count("\n") == 1
    assert "Permission denied; let dollyd's user read it" in done.stderr


def test_a_journal_that_may_not_be_opened_is_not_called_damaged(installation: Installation) -> None:
    (installation.directory / "state").chmod(0o755)
    (installation.directory / "state/journal.db").chmod(0o640)
    told = dollyd_as_nobody("doctor", "--config", installation.config).stdout
    assert "journal-unseen" in told
    assert "journal-damaged" not in told
