"""Whatever stands where the configuration names a file: one line and exit 78, at a start and at a reload."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.daemon import Installation
from tests.support.rights import NO_ROOT, NOBODY, as_nobody, open_folder

from dollyd.daemon.app import checked, open_journal
from dollyd.daemon.evidence.texts import to_toml
from dollyd.daemon.settings.load import load
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import Sight, look_for

WHEEL, ODDS = "tables.r1.devices.wheel", "tables.r1.devices.odds"
READ = (
    *("signing.key", "signing.next_key", "signing.trust"),
    *("mqtt.password_file", "mqtt.ca_file", "mqtt.cert_file", "mqtt.key_file"),
    *("tables.r1.rulebook", "tables.r1.profile", "tables.r1.layout", f"{ODDS}.secret_file"),
)
MADE = ("journal.path", "metrics.file")
PORTS = (f"{WHEEL}.port", f"{ODDS}.port")
NAMES = {
    "nul": "a\0b.toml",
    "line-end": "a\nb.toml",
    "long-name": f"{'x' * 300}.toml",
    "long-path": f"{'/x' * 3000}.toml",
    "under-a-file": "file.toml/x.toml",
    "loop": "loop.toml",
    "folder": "folder.toml",
    "pipe": "pipe.toml",
    "endless": "endless.toml",
    "long-file": "long.toml",
    "missing": "missing.toml",
    "empty": "",
    "root": "/",
    "up": "..",
}
NEEDED = ("signing.key", "tables.r1.rulebook", "tables.r1.profile", f"{ODDS}.secret_file")
SURVIVED = (
    # Figures are not worth a stop; what cannot be a name at all is refused.
    *(("metrics.file", name) for name in ("under-a-file", "loop", "folder", "pipe", "endless", "long-file")),
    *((key, "missing") for key in (*MADE, *PORTS)),  # it is made, or plugged in later
    *((key, "endless") for key in PORTS),  # a device that is no serial port is told by its opening
    *((key, "empty") for key in (*READ, "metrics.file") if key not in NEEDED),  # left out
    ("journal.path", "long-file"),  # a file that is no journal any more is put aside
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An installation, and what may stand where a file should."""
    with open_folder() as path:
        Installation(path, "127.0.0.1:1")
        (path / "folder.toml").mkdir()
        (path / "file.toml").write_text("file")
        (path / "long.toml").write_text("# \n" * 400_000)
        (path / "loop.toml").symlink_to(path / "loop.toml")
        (path / "endless.toml").symlink_to("/dev/zero")
        os.mkfifo(path / "pipe.toml")
        yield path


def configured(folder: Path, key: str, name: str) -> Path:
    """The configuration with another name of a file."""
    tree: dict[str, Any] = tomllib.loads((folder / "dollyd.toml").read_text())
    tree["signing"]["root"] = "x"
    *sections, last = key.split(".")
    section = tree
    for one in sections:
        section = section.setdefault(one, {})
    section[last] = str(folder / name) if name not in {"", "/", "..", NAMES["nul"]} else name
    config = folder / "changed.toml"
    config.write_text(to_toml(tree))
    return config


def start(config: Path) -> None:
    """What a start does before anything is at work; a reload does no more."""
    settings = load(config)
    keyring, _ = checked(settings)
    open_journal(settings, keyring).close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", [*READ, *MADE, *PORTS])
def test_what_can_be_no_file_is_one_line(folder: Path, key: str, name: str) -> None:
    config = configured(folder, key, NAMES[name])
    if (key, name) in SURVIVED:
        start(config)
        return
    with pytest.raises(ConfigError) as caught:
        start(config)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


START_AS_NOBODY = """from tests.daemon.test_named_paths import ConfigError, Path, json, start
import sys
refused = {}
for case in json.loads(sys.argv[2]):
    try:
        start(Path(sys.argv[1], case + ".toml"))
    except ConfigError as error:
        refused[case] = [error.key, str(error)]
print(json.dumps(refused))
"""


@pytest.mark.skipif(bool(NO_ROOT), reason=NO_ROOT)
def test_what_the_user_may_not_see_or_read_is_one_line(folder: Path) -> None:
    (folder / "hidden").mkdir(mode=0o700)
    names = {"hidden": "hidden/it.toml", "shut": "shut.toml"}
    for closed in names.values():
        (folder / closed).write_text("secret")
        (folder / closed).chmod(0o600)
    for own in (folder, folder / "signing.pem", folder / "odds.key"):
        os.chown(own, NOBODY, NOBODY)
    keys = [*READ, "journal.path", *PORTS]
    cases = {f"{key} {how}": key for key in keys for how in names}
    for case, key in cases.items():
        configured(folder, key, names[case.split()[1]]).rename(folder / f"{case}.toml")
    done = as_nobody(START_AS_NOBODY, folder, json.dumps(list(cases)))
    assert done.returncode == 0, done.stderr
    refused = json.loads(done.stdout)
    assert {case: key for case, (key, _) in refused.items()} == cases
    assert not [line for _, line in refused.values() if "\n" in line]
    assert "dollyd's user" in refused["mqtt.ca_file hidden"][1]


def test_all_files_that_are_read_are_known_by_their_keys(folder: Path) -> None:
    settings = load(folder / "dollyd.toml")
    assert settings.files == {
        "configuration": folder / "dollyd.toml",
        "signing.key": folder / "signing.pem",
        "tables.r1.profile": folder / "profile.toml",
        f"{ODDS}.secret_file": folder / "odds.key",
    }


def test_a_path_that_is_no_name_is_missing() -> None:
    assert look_for(Path("a\0b")) is Sight.MISSING
    assert look_for(Path("x" * 5000)) is Sight.MISSING
    assert look_for(Path("/")) is Sight.THERE
