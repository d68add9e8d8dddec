"""Only the root is pinned: the trust file comes from the site, and never goes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.chains import NODE, SITE, UTC, signer

from dollyd.client import SiteTrust
from dollyd.wire.judgement import Claim
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.trust import TRUST_TYP

ROOT, OTHER_ROOT = signer(8), signer(9)
START = "2026-01-01T00:00:00.000000000Z"


def file_of(
    version: int, *seeds: int, root: int = 8, site: str = SITE, revoked: int = 0, renew_days: int = 0
) -> bytes:
    nodes = [
        {"jwk": signer(seed).jwk, "not_before": START, "node": NODE}
        | ({"revoked": START, "reason": "stolen"} if seed == revoked else {})
        for seed in seeds
    ]
    base = {
        "v": 1,
        "site": site,
        "version": version,
        "issued": START,
        "root": signer(root).jwk,
        "renew_days": renew_days,
    }
    return signer(root).sign(json.dumps(base | {"nodes": nodes, "operators": []}).encode(), TRUST_TYP)


def knows(trust: SiteTrust, seed: int) -> bool:
    return trust.judge(Claim(kid=signer(seed).kid, node=NODE, utc=UTC)).trusted is not None


def test_attack_3d_no_older_trust_file_than_demanded_is_taken(tmp_path: Path) -> None:
    """A revoked node publishes version 1 again, in which it is good, to a consumer at its first start."""
    trust = SiteTrust(ROOT.kid, SITE, tmp_path / "trust.json", min_version=2)
    with capture_logs() as logs:
        assert not trust.offer(file_of(1, 1))
    assert "rollback: version 1; at least version 2 is demanded" in logs[0]["why"]
    assert not knows(trust, 1)
    assert trust.offer(file_of(2, 1, revoked=1))
    again = SiteTrust(ROOT.kid, SITE, tmp_path / "trust.json")
    assert not again.offer(file_of(1, 1)), "what was seen is remembered"


def test_attack_3d_a_kept_file_that_is_older_than_demanded_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(file_of(1, 1))
    trust = SiteTrust(ROOT.kid, SITE, path, min_version=2)
    assert trust.trust is None
    assert trust.offer(file_of(2, 1))
    assert knows(trust, 1)
    path.write_bytes(file_of(1, 1, root=9))
    with pytest.raises(EnvelopeError):
        SiteTrust(ROOT.kid, SITE, path, min_version=2)


def test_a_file_that_should_have_been_renewed_is_told_once_a_version() -> None:
    trust = SiteTrust(ROOT.kid, SITE)
    trust.warn_if_old("2030-01-01T00:00:00.000000000Z")
    with capture_logs() as logs:
        for version, renew_days in ((1, 0), (2, 30), (3, 30)):
            assert trust.offer(file_of(version, 1, renew_days=renew_days))
            trust.warn_if_old("2026-01-31T00:00:00.000000000Z")  # the last moment
            for _ in range(2):
                trust.warn_if_old("2026-01-31T00:00:00.000000001Z")
                trust.warn_if_old("2026-01-31T00:00:01.000000000Z")
    assert [(log["event"], log["version"]) for log in logs] == [("trust_file_old", 2), ("trust_file_old", 3)]


def test_nobody_is_trusted_before_there_is_a_file_and_each_newer_one_counts() -> None:
    trust = SiteTrust(ROOT.kid, SITE)
    assert not knows(trust, 1)
    assert trust.offer(file_of(1, 1))
    assert (knows(trust, 1), knows(trust, 2)) == (True, False)
    assert trust.offer(file_of(2, 1, 2, revoked=1))
    assert (knows(trust, 1), knows(trust, 2)) == (False, True)
    assert trust.offer(file_of(2, 1, 2, revoked=1)), "the same again is no trouble"
    assert trust.refused == 0


@pytest.mark.parametrize(
    "wrong",
    [file_of(1, 1), file_of(2, 1), file_of(9, 3, root=9), file_of(9, 3, site="other"), b"{}", b""],
    ids=["older", "another-of-its-version", "another-root", "another-site", "no-envelope", "nothing"],
)
def test_what_is_not_a_newer_file_of_this_site_is_refused_and_counted(wrong: bytes) -> None:
    trust = SiteTrust(ROOT.kid, SITE)
    trust.offer(file_of(2, 2))
    assert not trust.offer(wrong)
    assert (trust.refused, knows(trust, 2), knows(trust, 3), knows(trust, 1)) == (1, True, False, False)


def test_an_older_file_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    SiteTrust(ROOT.kid, SITE, path).offer(file_of(5, 2))
    again = SiteTrust(ROOT.kid, SITE, path)
    assert knows(again, 2)
    assert not again.offer(file_of(4, 1))
    assert [file.name for file in tmp_path.iterdir()] == ["trust.json"]
    with pytest.raises(EnvelopeError, match="root"):
        SiteTrust(OTHER_ROOT.kid, SITE, path)


def test_a_newer_file_counts_also_where_it_cannot_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    trust = SiteTrust(ROOT.kid, SITE, path)
    trust.offer(file_of(1, 1))
    (tmp_path / ".trust.json.new").mkdir()  # in its way
    with capture_logs() as logs:
        assert trust.offer(file_of(2, 2))
    assert [entry["event"] for entry in logs] == ["trust_file_not_kept"]
    assert (knows(trust, 2), trust.offer(file_of(1, 1))) == (True, False)
    assert knows(SiteTrust(ROOT.kid, SITE, path), 1)


def test_a_link_at_the_name_of_the_spare_file_leads_nowhere(tmp_path: Path) -> None:
    other, kept = tmp_path / "other", tmp_path / "trust.json"
    other.write_bytes(b"precious")
    (tmp_path / ".trust.json.new").symlink_to(other)
    assert SiteTrust(signer(8).kid, SITE, kept).offer(file_of(1, 1))
    assert other.read_bytes() == b"precious"
    assert kept.read_bytes() == file_of(1, 1)
    assert not kept.is_symlink()
