"""`dollyd check`: everything that can be known to be wrong before the daemon starts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.app import certificate_watch, mqtt_settings
from dollyd.daemon.brokers.acl import node_acl
from dollyd.daemon.brokers.check import BrokerCheck, Finding, Level, certificate_finding
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.clock import SystemClock
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.keyring import load_keyring
from dollyd.daemon.mqtt import MqttSettings
from dollyd.daemon.ports import check_port
from dollyd.daemon.settings import Settings, load
from dollyd.daemon.topics import Topics

EXIT_BROKER = 1
"""A broker lacks something; the configuration may be good."""


def check(
    config: ConfigFile,
    broker: Annotated[
        bool, typer.Option("--broker", help="Also prove that each broker keeps what it must.")
    ] = False,
    acl: Annotated[
        bool, typer.Option("--acl", help="Only print this node's lines of the broker's access list.")
    ] = False,
) -> None:
    """Check configuration, rules, ports, keys and paths; exit 78 and one line where one of them is wrong.

    Changes nothing and opens no port, so it may be run beside a running daemon. With --broker exit 1 where a
    broker does not give what the guarantees need.
    """
    settings = load(config)
    if acl:
        print(node_acl(Topics(settings.site), settings.node, settings.tables), end="")
        return
    keyring = load_keyring(settings)
    mqtt = mqtt_settings(settings)
    check_journal(settings)
    check_metrics(settings)
    for table in settings.tables.values():
        for device in table.devices.values():
            check_port(settings.file, device, must_exist=True)
    print(f"{config}: good")
    print(f"  site {settings.site}, node {settings.node}, key {keyring.newest.kid}")
    print(f"  brokers {', '.join(mqtt.brokers)} (MQTT {mqtt.protocol})")
    for name, table in settings.tables.items():
        rules = table.setup
        print(
            f"  table {name}: {rules.game.name} {rules.variant_name}, {rules.rulebook.id}, {rules.profile.id}"
        )
        for device in table.devices.values():
            print(f"    {device.section.role}: {device.driver.name} on {device.section.port}")
    if broker and not asyncio.run(check_brokers(settings, mqtt)):
        raise typer.Exit(EXIT_BROKER)


def check_journal(settings: Settings) -> None:
    """Refuse a journal that cannot be written, without touching it. Raises `ConfigError`."""
    path = Path(settings.journal.path)
    target = path if path.exists() else path.parent
    if path.is_dir() or not target.exists() or not os.access(target, os.W_OK):
        remedy = "name a writable path on a local disk"
        raise ConfigError(settings.file, "journal.path", f"{path} cannot be written", remedy)


def check_metrics(settings: Settings) -> None:
    """Refuse a file that cannot be replaced. Raises `ConfigError`."""
    folder = Path(settings.metrics.file).parent
    if settings.metrics.file and not (folder.is_dir() and os.access(folder, os.W_OK)):
        remedy = "name a file in a writable directory"
        raise ConfigError(settings.file, "metrics.file", f"{folder} cannot be written", remedy)


async def check_brokers(settings: Settings, mqtt: MqttSettings) -> bool:
    """Print what is found of every broker and of our certificates; whether nothing is wrong."""
    clock = SystemClock()
    certificates = certificate_watch(mqtt, clock)
    certificates.look()
    findings = [certificate_finding(f"mqtt.{name}", days) for name, days in certificates.days_left.items()]
    findings += [
        Finding(Level.WRONG, "tls", f"mqtt.{name}: {problem}", "name a PEM file")
        for name, problem in certificates.problems.items()
    ]
    print(*findings, sep="\n", end="\n" if findings else "")
    for address in mqtt.brokers:
        found = await BrokerCheck(mqtt, address, Topics(settings.site), settings.node, clock).run()
        print(f"{address}:", *found, sep="\n")
        findings += found
    return not any(finding.level is Level.WRONG for finding in findings)
