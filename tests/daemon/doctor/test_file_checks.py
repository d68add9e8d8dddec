"""Files that the configuration names, and what the service's own user may do with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from tests.support.site_broker import Authority

from dollyd.daemon.doctor.checks import BEFORE_A_START, check_start, findings
from dollyd.daemon.keys.signing import new_key
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import Sight

if TYPE_CHECKING:
    from tests.daemon.doctor.conftest import Bench


def key_of_another(bench: Bench) -> None:
    new_key(bench.home / "own.pem")
    bench.configure(("/run/credentials/dollyd.service/dollyd_signing.pem", f"{bench.home}/own.pem"))


def unreadable_configuration(bench: Bench) -> None:
    bench.config.chmod(0o600)


def unreadable_profile(bench: Bench) -> None:
    shipped = files("dollyd").joinpath("config", "profiles", "fi-ray-2013.toml").read_bytes()
    (bench.home / "house.toml").write_bytes(shipped)
    (bench.home / "house.toml").chmod(0o600)
    bench.configure(('profile = "fi-ray-2013"', 'profile = "house.toml"'))


def closed_folder(bench: Bench) -> None:
    Authority(bench.home).issue("box1")
    lines = (
        f'{key} = "{bench.home}/box1.{end}"\n' for key, end in (("cert_file", "crt"), ("key_file", "key"))
    )
    bench.configure(("[signing]", f"[mqtt]\nbrokers = ['mqtts://here']\n{''.join(lines)}[signing]"))
    for name in ("box1.crt", "box1.key"):
        (bench.home / "tls").mkdir(exist_ok=True)
        (bench.home / name).rename(bench.home / "tls" / name)
        bench.configure((f"/{name}", f"/tls/{name}"))
    bench.home.joinpath("tls").chmod(0o700)


def figures(name: str) -> Callable[[Bench], None]:
    def seed(bench: Bench) -> None:
        bench.home.joinpath("shut").mkdir(mode=0o755)
        bench.configure(("[signing]", f'[metrics]\nfile = "{bench.home}/{name}"\n[signing]'))

    return seed


SEEDS = (
    ("file-access", key_of_another),
    ("file-access", unreadable_configuration),
    ("file-access", unreadable_profile),
    ("file-access", closed_folder),
    ("metrics-file", figures("shut/dollyd.prom")),
    ("metrics-file", figures("nowhere/dollyd.prom")),
)


@pytest.mark.parametrize(("id_", "spoil"), SEEDS)
def test_what_the_service_s_user_may_not_read_or_replace_is_found_though_root_may(
    bench: Bench, id_: str, spoil: Callable[[Bench], None]
) -> None:
    spoil(bench)
    assert bench.found() == {id_}
    case = bench.case()
    assert case.refused == ()  # whoever asks may read it
    assert {one.id for one in findings(case, BEFORE_A_START)} - {"device-unbound"} == {id_}


def test_a_start_that_would_be_refused_is_refused_before(bench: Bench) -> None:
    assert check_start(bench.case()).node == "box1"
    bench.machine.path("/dev/ttyUSB0").unlink()  # a start survives that
    check_start(bench.case())
    key_of_another(bench)
    with pytest.raises(ConfigError, match=r"signing\.key: dollyd may not read .*; `chown dollyd`"):
        check_start(bench.case())


def test_a_file_of_another_version_is_no_damaged_journal(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.home / "journal.db")) as other:
        other.execute("CREATE TABLE x (y)")
    (bench.home / "journal.db").chmod(0o660)
    assert bench.found() == {"journal-path"}


def test_who_does_not_see_the_service_s_folders_is_told_to_be_root(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(*_: object) -> bool:
        raise PermissionError

    figures("shut/dollyd.prom")(bench)
    with monkeypatch.context() as patch:
        patch.setattr("dollyd.daemon.doctor.case.Account.may_read", hidden)
        for module in ("evidence_checks", "file_checks"):
            patch.setattr(f"dollyd.daemon.doctor.{module}.look_for", lambda _: Sight.HIDDEN)
        found = bench.findings()
    assert {one.id for one in found} == {"journal-unseen", "metrics-unseen", "file-unseen"}
    assert {one.remedy for one in found} == {"run this as root"}


def test_an_access_list_may_give_what_the_mode_does_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_of_another(bench)
    monkeypatch.setattr("dollyd.daemon.doctor.case.os.listxattr", lambda _: ["system.posix_acl_access"])
    assert bench.findings() == []
