from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.broker import Mosquitto
from tests.support.site_broker import Authority, Site, site_of

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.link.certificates import CertificateWatch, check_pair, file_days_left, stage
from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink
from dollyd.wire.errors import ConfigError
from dollyd.wire.topics import Topics

TOPICS = Topics("house")


@pytest.mark.parametrize(
    ("days", "due"), [(400, None), (30, None), (29, 30), (7, 30), (6, 7), (1, 7), (0, 1), (-1, -1)]
)
def test_warnings_come_at_30_7_and_1_days(days: int, due: int | None) -> None:
    assert stage(days) == due


def test_b37_each_stage_of_a_certificate_is_told_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = tmp_path / "box1.crt"
    watch = CertificateWatch({"ca_file": None, "cert_file": str(path)}, SystemClock())
    told = []
    for hours in (24 * 100, 24 * 20, 24 * 19, 24 * 5, 12, -30, 24 * 100, 24 * 5):
        authority.issue("box1", hours)
        with capture_logs() as logs:
            watch.look()
            watch.look()
        told.append([(log["event"], log["log_level"], log["days_left"]) for log in logs])
    assert told == [
        [],
        [("certificate_expires", "warning", 19)],
        [],
        [("certificate_expires", "warning", 4)],
        [("certificate_expires", "error", 0)],
        [("certificate_expired", "error", -2)],
        [],
        [("certificate_expires", "warning", 4)],
    ]
    assert watch.days_left == {"cert_file": 4}


def test_a_certificate_that_cannot_be_read_is_told_once_and_missing(tmp_path: Path) -> None:
    path = tmp_path / "box1.crt"
    path.write_text("no certificate")
    watch = CertificateWatch({"cert_file": str(path)}, SystemClock())
    with capture_logs() as logs:
        watch.look()
        watch.look()
    assert [log["event"] for log in logs] == ["certificate_unreadable"]
    assert (watch.days_left, set(watch.problems)) == ({}, {"cert_file"})


def test_the_first_to_end_of_several_certificates_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("box1", 24 * 3)
    both = tmp_path / "chain.pem"
    both.write_bytes(authority.ca_file.read_bytes() + (tmp_path / "box1.crt").read_bytes())
    assert file_days_left(both, SystemClock().stamp().utc_ns) == 2


@pytest.fixture
def site() -> Iterator[Site]:
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        broker.start()
        yield site


async def test_b37_an_expired_certificate_is_refused_and_its_renewal_used_at_the_next_connect(
    site: Site,
) -> None:
    site.authority.issue("box1", hours=-1)
    box1 = replace(site.settings("box1"), ack_deadline_s=1)
    with pytest.raises(LinkError) as caught:
        async with MqttLink(box1, site.address) as link:
            await link.publish(TOPICS.state("r1"), b"x")
    assert caught.value.cause is not Cause.DENIED
    site.authority.issue("box1")
    async with MqttLink(box1, site.address) as link:
        await link.publish(TOPICS.state("r1"), b"x")


@pytest.mark.parametrize("what", ["the key before", "half a certificate", "no key"])
def test_n13_a_certificate_and_a_key_that_do_not_fit_are_found_before_a_link_is_given_up(
    tmp_path: Path, what: str
) -> None:
    authority = Authority(tmp_path)
    authority.issue("before")
    authority.issue("after")
    cert, key = tmp_path / "after.crt", tmp_path / "after.key"
    check_pair("dollyd.toml", str(authority.ca_file), str(cert), str(key))
    if what == "the key before":
        key = tmp_path / "before.key"
    elif what == "half a certificate":
        cert.write_bytes(cert.read_bytes()[:200])
    else:
        key.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"mqtt\.cert_file") as refused:
        check_pair("dollyd.toml", str(authority.ca_file), str(cert), str(key))
    assert str(key) in str(refused.value)
    assert "\n" not in str(refused.value)
