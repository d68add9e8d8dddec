"""One rule for every secret file (finding 13 of the attackers)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.daemon.test_named_paths import READ, configured, start
from tests.support.daemon import Installation
from tests.support.rights import open_folder

from dollyd.daemon.cli.options import secret_file
from dollyd.daemon.doctor.case import open_case
from dollyd.daemon.doctor.checks import check_start, findings
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.host.secret_files import read_secret, write_secret
from dollyd.daemon.settings.file_names import is_secret
from dollyd.wire.errors import ConfigError

SECRETS = [key for key in READ if is_secret(key)]


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        Installation(path, "127.0.0.1:1")
        yield path


def test_secrets_are_found_by_their_keys() -> None:
    assert len(SECRETS) == 5
    assert {key for key in READ if "key" in key.rpartition(".")[2] or "secret" in key} <= set(SECRETS)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o666])
@pytest.mark.parametrize("key", SECRETS)
def test_attack_13_a_secret_that_others_may_read_or_write_is_refused(
    folder: Path, key: str, mode: int
) -> None:
    """By the start, by `check` and by `doctor`, in the same words."""
    secret = folder / "open.pem"
    secret.write_bytes((folder / "signing.pem").read_bytes())
    secret.chmod(mode)
    config = configured(folder, key, secret.name)
    with pytest.raises(ConfigError, match="read by others") as caught:
        start(config)
    assert (caught.value.key, caught.value.remedy) == (key, f"run `chmod 0600 {secret}`")
    case = open_case(config, Host(), SystemClock())
    with pytest.raises((ConfigError, typer.Exit), match="read by others"):
        check_start(case)
    assert any("read by others" in f"{one.what}" for one in findings(case))


def test_attack_13_an_option_that_names_a_secret_keeps_the_rule(tmp_path: Path) -> None:
    write_secret(tmp_path / "desk.key", b"secret")
    assert secret_file("--key-file", str(tmp_path / "desk.key")) == str(tmp_path / "desk.key")
    assert secret_file("--key-file", "") is None
    (tmp_path / "desk.key").chmod(0o640)
    with pytest.raises(ConfigError, match="read by others"):
        secret_file("--key-file", str(tmp_path / "desk.key"))


def test_attack_13_a_secret_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "odds.key"
    write_secret(path, b"secret")
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    monkeypatch.setattr("os.geteuid", lambda: 4321)
    with pytest.raises(ConfigError, match="belongs to user"):
        read_secret(path, config_file="f", key="k", remedy="r")


def test_a_new_secret_is_readable_by_its_owner_only_and_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "odds.key"
    write_secret(path, b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_secret(path, b"another")
    assert read_secret(path, config_file="f", key="k", remedy="r") == b"secret"


def test_nothing_half_made_stays_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_secret(tmp_path / "odds.key", b"secret")
    assert list(tmp_path.iterdir()) == []
