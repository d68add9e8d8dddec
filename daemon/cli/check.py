"""`dollyd check`: everything that can be known to be wrong before the daemon starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.brokers.acl import node_acl
from dollyd.daemon.brokers.check import BrokerCheck, certificate_finding
from dollyd.daemon.brokers.finding import Finding as BrokerFinding
from dollyd.daemon.brokers.finding import Level
from dollyd.daemon.brokers.sizes import published_sizes
from dollyd.daemon.cli.doctor import in_two_lines
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.doctor.case import Case, Severity, open_case
from dollyd.daemon.doctor.checks import BEFORE_A_START, check_start, findings
from dollyd.daemon.doctor.credentials import absent
from dollyd.daemon.doctor.evidence_checks import ended
from dollyd.daemon.doctor.file_checks import metrics_access
from dollyd.daemon.doctor.port_checks import forbidden_usb, missing_ports
from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.machine import Host
from dollyd.daemon.host.terminal import say
from dollyd.daemon.link.certificates import file_days_left
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.settings.load import Settings
from dollyd.wire.topics import Topics

EXIT_BROKER = 1
"""A certificate is at its end, or a broker lacks something; the configuration may be good."""


def check(
    config: ConfigFile,
    broker: Annotated[
        bool, typer.Option("--broker", help="Also prove that each broker keeps what it must.")
    ] = False,
    restarted: Annotated[
        bool,
        typer.Option("--restarted", help="With --broker: each was restarted since the last check of it."),
    ] = False,
    acl: Annotated[
        bool, typer.Option("--acl", help="Only print this node's lines of the broker's access list.")
    ] = False,
) -> None:
    """Check configuration, rules, ports, keys and paths; exit 78 and a line for each that is wrong.

    Files, journal and ports are tried by the rights of the service's user. Then tells what a start would
    survive: names of ports, disk, trust, TLS dates, clock. Changes nothing and opens no port, so it may be
    run beside the daemon. Run it as root: others do not see all files. Exit 1 where a certificate, or with
    --broker a broker, does not give what the guarantees need, or no broker could be asked.
    """
    case = open_case(config, Host(), SystemClock())
    if acl and case.settings is not None:
        node = case.settings
        topics, publishes = Topics(node.site), node.signing.publish_trust
        say(*node_acl(topics, node.node, node.tables, publishes_trust=publishes).splitlines())
        return
    settings = check_start(case, (metrics_access, forbidden_usb))
    say(f"{config}: good")
    say(*summary(case, settings))
    for key, path in absent(settings):
        say(f"  {key} is the credential {path}, which was not looked at: it is root's, or encrypted")
    missing = [replace(one, severity=Severity.WARNING) for one in findings(case, (missing_ports,))]
    for finding in (*missing, *findings(case, BEFORE_A_START)):
        say(*in_two_lines(finding))
    good = case.mqtt is None or check_certificates(case.mqtt)
    if broker and ended(case):
        say("no broker was asked: the certificate comes first")
    elif broker and case.mqtt is not None:
        good &= asyncio.run(check_brokers(settings, case.mqtt, restarted=restarted))
    elif broker:
        unseen = ", ".join(key for key, _ in absent(settings) if key.startswith("mqtt."))
        say(f"no broker was asked: it wants {unseen}, which only the running service can read")
        good = False
    if not good:
        raise typer.Exit(EXIT_BROKER)


def summary(case: Case, settings: Settings) -> Iterator[str]:
    """What would be run with what, in lines; a USB device as it says itself who it is."""
    key = f", key {case.keyring.newest.kid}" if case.keyring is not None else ""
    yield f"  site {settings.site}, node {settings.node}{key}"
    if case.mqtt is not None:
        yield f"  brokers {', '.join(case.mqtt.brokers)} (MQTT {case.mqtt.protocol})"
    plugged = {device.key: port.usb for device, port in case.bound()}
    for name, table in settings.tables.items():
        rules = table.setup
        what = f"{rules.game.name} {rules.variant_name}"
        yield f"  table {name}: {what}, {rules.rulebook.id}, {rules.profile.id}"
        for device in table.devices.values():
            usb = plugged.get(device.key) or next(iter(case.meant_by(device.usb) if device.usb else ()), None)
            plug = f": {usb.name}, serial {usb.serial or 'none'}, socket {usb.plug}" if usb else ""
            yield f"    {device.section.role}: {device.driver.name} on {device.section.port}{plug}"


def check_certificates(mqtt: MqttSettings) -> bool:
    """Print how long our certificates are good for; whether nothing is wrong."""
    found = []
    for name in ("ca_file", "cert_file"):
        if path := getattr(mqtt, name):
            try:
                days = file_days_left(Path(path), SystemClock().stamp().utc_ns)
                found.append(certificate_finding(f"mqtt.{name}", days))
            except (OSError, ValueError) as error:
                found.append(BrokerFinding(Level.WRONG, "tls", f"mqtt.{name}: {error}", "name a PEM file"))
    return _told(found)


async def check_brokers(settings: Settings, mqtt: MqttSettings, *, restarted: bool = False) -> bool:
    """Print what is found of every broker; whether nothing is wrong.

    `restarted`: a person says that each of them was restarted since the last check.
    """
    good = True
    for address in mqtt.brokers:
        say(f"{address}:")
        topics, clock, sizes = Topics(settings.site), SystemClock(), published_sizes(settings)
        check = BrokerCheck(mqtt, address, topics, settings.node, clock, sizes, restarted=restarted)
        good &= _told(await check.run())
    return good


def _told(found: list[BrokerFinding]) -> bool:
    for one in found:
        say(one)
    return not any(one.level is Level.WRONG for one in found)
