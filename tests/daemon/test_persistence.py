"""That a broker's memory survives a restart is proved by a marker, with a real Mosquitto."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.broker import Mosquitto
from tests.support.site_broker import CONFIG, Site, site_of

from dollyd.daemon.brokers.finding import Finding, Level
from dollyd.daemon.brokers.persistence import Look, Marker, judge, take_look
from dollyd.daemon.link.mqtt import MqttLink, MqttSettings
from dollyd.wire.stamp import NS_PER_S
from dollyd.wire.topics import Topics

TOPIC = Topics("house").node_check("box1", "marker")
NOON_S = 1_800_000_000


async def look(broker: Mosquitto, at_s: int) -> Look:
    mqtt = MqttSettings((broker.address,), "box1-check")
    async with MqttLink(mqtt, broker.address, keep_session=False) as link:
        return await take_look(link, TOPIC, at_s * NS_PER_S)


async def look_at(site: Site, user: str) -> Look:
    async with MqttLink(site.settings(user), site.address, keep_session=False) as link:
        return await take_look(link, TOPIC, NOON_S * NS_PER_S)


async def two_looks(persistence: bool, *, kill: bool = False) -> tuple[Finding, Finding]:
    with Mosquitto("sys_interval 1\nautosave_interval 1", persistence=persistence) as broker:
        first = judge(await look(broker, NOON_S), restarted=False)
        if kill:
            broker.save()
            broker.kill()
        else:
            broker.stop()
        broker.start()
        return first, judge(await look(broker, NOON_S + 600), restarted=True)


@pytest.mark.parametrize("kill", [False, True])
async def test_l10_the_marker_that_outlives_a_restart_proves_persistence(kill: bool) -> None:
    first, second = await two_looks(persistence=True, kill=kill)
    assert (first.level, second.level) == (Level.UNKNOWN, Level.GOOD)
    assert "a restart loses last results, states, sessions" in first.text
    assert "restart the broker, then run `dollyd check --broker --restarted`" in first.remedy
    assert "retained messages survive a restart" in second.text


async def test_l10_the_marker_that_is_gone_is_wrong() -> None:
    first, second = await two_looks(persistence=False)
    assert (first.level, second.level) == (Level.UNKNOWN, Level.WRONG)
    assert "persistence true" in second.remedy


async def test_l10_a_broker_that_was_not_restarted_proves_nothing() -> None:
    with Mosquitto(persistence=True) as broker:
        await look(broker, NOON_S)
        again = await look(broker, NOON_S)
    assert again.marker is not None
    assert again.marker.utc_ns == NOON_S * NS_PER_S
    assert judge(replace(again, uptime_s=300), restarted=True).level is Level.WARNING


async def test_l10_an_access_list_without_the_marker_is_no_lost_memory() -> None:
    """A site that has not yet added the marker's line; and a stranger, whose publish is denied."""
    with Mosquitto(started=False) as broker:
        site = site_of(broker)
        broker.start()
        stranger, node = await look_at(site, "stranger"), await look_at(site, "box1")
    found = judge(stranger, restarted=True)
    assert (found.level, node.left) == (Level.UNKNOWN, True)
    assert "dollyd check --acl" in found.remedy
    assert f"topic readwrite {TOPIC}\n" in (CONFIG / "mosquitto.acl").read_text("utf-8")


@pytest.mark.parametrize(
    ("age_s", "uptime_then_s", "uptime_s", "restarted", "level"),
    [
        (600, 50, 20, False, Level.GOOD),  # it has run for less long than then
        (600, 0, 20, False, Level.GOOD),  # for less long than the marker is old
        (20, 0, 5, False, Level.UNKNOWN),  # may be the uptime of ten seconds ago
        (20, 0, 5, True, Level.GOOD),
        (600, 50, 650, False, Level.UNKNOWN),
        (600, 50, 650, True, Level.WARNING),
        (600, -1, -1, False, Level.UNKNOWN),
        (600, -1, -1, True, Level.GOOD),
        (600, -1, 20, False, Level.GOOD),
    ],
)
def test_l10_what_follows_from_the_uptime(
    age_s: int, uptime_then_s: int, uptime_s: int, restarted: bool, level: Level
) -> None:
    marker = Marker(NOON_S * NS_PER_S, uptime_then_s)
    seen = Look((NOON_S + age_s) * NS_PER_S, uptime_s, marker)
    assert judge(seen, restarted=restarted).level is level
