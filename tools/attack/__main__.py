"""Attack one daemon in every way of `SCENARIOS`, one after the other: `python -m tools.attack --seconds N`.

The broker is the shipped one: TLS, client certificates, access list. Table r1 plays in good health, table x1
is the attackers'. What is heard of r1 must be its games, all of them; latency is told before and during.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

import aiomqtt
from tests.support.broker import Heard, Listener, Mosquitto, ended, until
from tests.support.daemon import NODE, TABLE, TOPICS, Consumer, Daemon, Installation, Told
from tests.support.simulated_table import SimulatedTable
from tests.support.site_broker import CONFIG, Site, site_of

from dollyd.daemon.host.clock import SystemClock
from dollyd.simulators.console import Console, ConsoleOptions
from dollyd.simulators.line import Line
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.runner import Device

FASTEST_MS = 5
PERIOD_MS = 50
"""Status period of the healthy wheel: a game every second or two."""
LATE_MS = 2_000
"""A record of the healthy table that takes longer, p99, is held up; less is a busy machine of two cores."""
_CONSOLE = """
[tables.x1.devices.console]
driver = "tlp"
role = "console"
port = "{directory}/x1-console"
"""


@dataclass(frozen=True)
class Scene:
    """What an attacker has: a site, its folder, and the names of certificates that it may use."""

    site: Site
    directory: Path

    def client(self, user: str, client_id: str) -> aiomqtt.Client:
        """A connection with somebody's certificate, under any client id."""
        settings = self.site.settings(user)
        tls = aiomqtt.TLSParameters(settings.ca_file, settings.cert_file, settings.key_file)
        broker = self.site.broker
        return aiomqtt.Client(broker.host, broker.port, identifier=client_id, tls_params=tls, timeout=5)


Attack = Callable[[Scene], Coroutine[Any, Any, None]]


async def fast_wheel(scene: Scene) -> None:
    """Finding 4: a wheel a hundred times too fast."""
    async with SimulatedTable(scene.directory, "x1", period_ms=FASTEST_MS) as table:
        table.play()
        await asyncio.Event().wait()


async def stuck_keys(scene: Scene) -> None:
    """Findings 4 and 17: a console that voids, opens and closes a hundred times a second."""
    clock = SystemClock()
    console = Console(ConsoleOptions(period_ms=PERIOD_MS), Random(1), clock.stamp().mono_ns)
    port = PtyLink(scene.directory / "x1-console")
    device = Device(console, port, clock, Line(Random(2)))
    port.plug()
    life = asyncio.create_task(device.run())
    try:
        while True:
            for key in ("VOID", "CLOSE", "OPEN"):
                console.press(key)
            device.wake()
            await asyncio.sleep(0.03)
    finally:
        life.cancel()
        port.unplug()


async def replay_flood(scene: Scene) -> None:
    """Finding 8: replay asked for a hundred times a second, under changing names."""
    async with scene.client("archive1", "attacker-8") as client:
        for number in range(1_000_000):
            ask = f'{{"consumer": "c{number}", "chain": "{number:032x}", "from": 1, "count": 1000}}'
            await client.publish(f"{TOPICS.command('r1').removesuffix('command')}replay/archive1/ask", ask)
            await asyncio.sleep(0.01)


async def large_packets(scene: Scene) -> None:
    """Findings 9 and 14: orders of a megabyte."""
    async with scene.client("desk", "attacker-14") as client:
        while True:
            await client.publish(TOPICS.command("r1"), bytes(1_000_000), qos=1)
            await asyncio.sleep(0.1)


async def client_ids(scene: Scene) -> None:
    """Finding 15: every client id that can be guessed, in a loop."""
    while True:
        for name in (f"dollyd-{scene.site.settings(NODE).client_id}", f"dollyd-house-{NODE}", "dollyd-house"):
            async with scene.client("witness1", name):
                await asyncio.sleep(0.1)


async def garbage(scene: Scene) -> None:
    """Finding 16: a thousand orders a second that are none."""
    async with scene.client("desk", "attacker-16") as client:
        while True:
            for _ in range(20):
                await client.publish(TOPICS.command("r1"), os.urandom(20))
            await asyncio.sleep(0.02)


SCENARIOS: dict[str, Attack] = {
    "4 fast wheel": fast_wheel,
    "17 stuck keys": stuck_keys,
    "8 replay flood": replay_flood,
    "14 large packets": large_packets,
    "16 garbage": garbage,
    "15 client ids": client_ids,
}
LATE_ALLOWED = frozenset({"15 client ids"})
"""Whoever takes the publisher's id delays what goes to the broker until it is back; nothing may be lost."""
CAUGHT_UP_S = 90.0


def laid_out(site: Site, directory: Path) -> Installation:
    """A node with the healthy table and the attackers', which plays by the shipped profile."""
    own_acl = directory / "acl"
    shipped = (CONFIG / "mosquitto.acl").read_text("utf-8")
    box = shipped[shipped.index(f"user {NODE}\n") :].split("\n\n", 1)[0]
    own_acl.write_text(f"{shipped}\n{box.replace('/r1/', '/x1/')}\n")
    own_acl.chmod(0o644)
    site.configure((f"{CONFIG}/mosquitto.acl", str(own_acl)))
    installation = Installation(directory, site.address, variant="A")
    box1 = site.settings(NODE)
    files = "".join(f'{key} = "{getattr(box1, key)}"\n' for key in ("ca_file", "cert_file", "key_file"))
    installation.reconfigure("[mqtt]\n", f"[mqtt]\n{files}")
    attacked = TABLE.format(table="x1", variant="A", directory=directory, period_ms=200, silence_ms=3000)
    attacked = attacked.replace("profile.toml", "fi-ray-2013") + _CONSOLE.format(directory=directory)
    installation.config.write_text(installation.config.read_text() + attacked)
    return installation


async def listen(scene: Scene, listener: Listener) -> None:
    """Hear all records, as a consumer with a certificate does."""
    async with scene.client("witness1", "listener") as client:
        await client.subscribe("dolly/v1/house/+/record/+", qos=1)
        listener.connected.set()
        async for message in client.messages:
            heard = Heard(message.topic.value, message.payload, message.retain, time.monotonic())
            listener.heard.append(heard)


def p99_ms(records: list[Told]) -> float:
    """From the decision to the consumer; 0 where there are too few."""
    took = [record.at_s * 1_000 - record.time["monotonic_ns"] / 1e6 for record in records]
    return quantiles(took, n=100)[-1] if len(took) > 1 else 0.0


async def attack(seconds: float) -> bool:
    """Run all scenarios; whether the healthy table felt nothing."""
    good = True
    with TemporaryDirectory(prefix="dollyd-attack-") as folder, Mosquitto(started=False) as broker:
        scene = Scene(site_of(broker), Path(folder))
        installation = laid_out(scene.site, scene.directory)
        broker.start()
        listener = Listener()
        ear = asyncio.create_task(listen(scene, listener))
        await asyncio.wait_for(listener.connected.wait(), 10)
        consumer = Consumer(listener)
        async with SimulatedTable(scene.directory, period_ms=PERIOD_MS) as healthy:
            with Daemon(installation) as daemon:
                await daemon.started()
                await until(lambda: bool(consumer.of("session")), 20)
                healthy.play()
                before = await stretch(consumer, seconds)
                print(f"{'':18} records {len(before):4}  p99 {p99_ms(before):6.0f} ms  alone")
                for name, scenario in SCENARIOS.items():
                    task = asyncio.create_task(scenario(scene))
                    during = await stretch(consumer, seconds)
                    await ended(task)
                    late_ms = p99_ms(during)
                    in_time = name in LATE_ALLOWED or (bool(during) and late_ms < LATE_MS)
                    unharmed = daemon.running and in_time
                    good &= unharmed
                    verdict = "ok" if unharmed else "FELT"
                    print(f"{name:18} records {len(during):4}  p99 {late_ms:6.0f} ms  {verdict}")
                healthy.end_play()
                with suppress(AssertionError):
                    await until(lambda: not missing(healthy, consumer), CAUGHT_UP_S)
                lost = missing(healthy, consumer)
                print(f"lost: {len(lost)} {' '.join(lost)}".rstrip())
                good &= not lost
        ear.cancel()
        await asyncio.gather(ear, return_exceptions=True)
    return good


def missing(healthy: SimulatedTable, consumer: Consumer) -> list[str]:
    """Numbers that fell at the healthy table and are in no result, in order."""
    told = iter(record.body["outcome"]["pocket"] for record in consumer.of("result") if record.table == "r1")
    return [number for number in healthy.numbers if number not in told]


async def stretch(consumer: Consumer, seconds: float) -> list[Told]:
    """The records of the healthy table within a while."""
    heard = len(consumer.records)
    await asyncio.sleep(seconds)
    return [record for record in consumer.records[heard:] if record.table == "r1"]


def main() -> int:
    """Exit code 1 where the healthy table felt anything."""
    parser = argparse.ArgumentParser(description="Attack a daemon beside a healthy table.")
    parser.add_argument("--seconds", type=float, default=25.0, help="how long each attack lasts")
    return 0 if asyncio.run(attack(parser.parse_args().seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
