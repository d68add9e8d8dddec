"""What the real daemon tells of itself, and what `dollyd check --broker` tells of its broker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.support.broker import Mosquitto, until
from tests.support.daemon import NODE, TOPICS, Consumer, Daemon, Installation, dollyd
from tests.support.simulated_table import SimulatedTable, playing
from tests.support.site_broker import Site, site_of

from dollyd.daemon.health.health import NodeHealth


@pytest.fixture
def installation(broker: Mosquitto, tmp_path: Path) -> Installation:
    installation = Installation(tmp_path, broker.address)
    text = installation.config.read_text()
    installation.config.write_text(text.replace("[mqtt]", f'[metrics]\nfile = "{tmp_path}/d.prom"\n[mqtt]'))
    return installation


async def test_health_is_complete_on_its_topic_and_for_scrapers(
    table: SimulatedTable, daemon: Daemon, consumer: Consumer, installation: Installation
) -> None:
    await playing(table, consumer, 1)
    topic = TOPICS.node_health(NODE)

    def entries() -> int:
        latest = consumer.latest(topic)
        return int(latest["journal"]["entries"]) if latest else 0

    await until(lambda: entries() > 1)
    health = msgspec.json.decode(json.dumps(consumer.latest(topic)), type=NodeHealth)
    assert health.publisher.connected
    assert health.writer.commits > 0
    assert health.writer.commit_max_us >= health.writer.commit_last_us > 0
    assert health.writer.commits_within_ms["inf"] == health.writer.commits
    assert health.journal.wal_bytes > 0
    assert health.journal.disk_free_bytes > 0
    assert health.memory.peak_kib >= health.memory.resident_kib > 0
    assert set(health.devices) == {"r1/wheel", "r1/odds"}
    assert health.devices["r1/wheel"].link["opens"] == 1
    metrics = installation.directory / "d.prom"
    await until(metrics.exists)
    read = text_string_to_metric_families(metrics.read_text())  # type: ignore[no-untyped-call]  # it has no types
    families = {family.name for family in read}
    assert {"dollyd_commit_seconds", "dollyd_device_link", "dollyd_drops"} <= families
    installation.reconfigure("[mqtt]\n", "[mqtt]\nkeepalive_s = 9\n")
    os.kill(daemon.pid, signal.SIGHUP)  # a new link, by other settings
    await until(lambda: consumer.latest(topic)["publisher"]["links"] == 2)
    assert consumer.latest(topic)["publisher"]["lost"] == {}


@pytest.fixture
def site() -> Iterator[Site]:
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        broker.start()
        yield site


def test_check_proves_a_broker_and_prints_the_lines_of_its_access_list(site: Site, tmp_path: Path) -> None:
    installation = Installation(tmp_path, site.address)
    box1 = site.settings(NODE)
    files = "".join(f'{key} = "{getattr(box1, key)}"\n' for key in ("ca_file", "cert_file", "key_file"))
    installation.reconfigure("[mqtt]\n", f"[mqtt]\n{files}")
    for name in ("r1-wheel", "r1-odds"):
        (tmp_path / name).symlink_to("/dev/null")  # a port that is there, which check does not open
    installation.reconfigure("[mqtt]\n", f'[metrics]\nfile = "{tmp_path}/nowhere/d.prom"\n[mqtt]\n')
    refused = dollyd("check", "--config", installation.config)
    assert (refused.returncode, "metrics.file" in refused.stderr) == (78, True)
    installation.reconfigure("nowhere/", "")
    told = dollyd("check", "--config", installation.config)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "mqtt.cert_file ends in" in told.stdout  # dates need no broker
    lines = dollyd("check", "--config", installation.config, "--acl")
    assert lines.stdout.startswith(f"user {NODE}\n")
    good = dollyd("check", "--config", installation.config, "--broker")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "1500 records kept in order" in good.stdout
    site.authority.issue(NODE, hours=10)
    site.broker.stop()
    bad = dollyd("check", "--config", installation.config, "--broker")
    assert bad.returncode == 1
    assert "mqtt.cert_file ends in 0 days; renew it" in bad.stdout
    assert "start the broker" in bad.stdout
