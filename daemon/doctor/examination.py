"""Asks those who can answer: every broker, and every device whose port is free."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from dollyd.daemon.brokers.check import SILENCE_S, BrokerCheck
from dollyd.daemon.brokers.finding import Finding as BrokerFinding
from dollyd.daemon.brokers.sizes import published_sizes
from dollyd.daemon.discovery.listening import Heard, hear_all
from dollyd.daemon.doctor.case import Case
from dollyd.daemon.doctor.evidence_checks import ended
from dollyd.daemon.link.mqtt import LinkError, MqttLink, MqttSettings
from dollyd.daemon.settings.load import Settings
from dollyd.wire.decoding import from_json
from dollyd.wire.files import Sight, look_for
from dollyd.wire.topics import Topics

_RETAINED_S = 2 * SILENCE_S


async def examine(case: Case) -> Case:
    """The case with what brokers and devices have answered; takes some seconds.

    A device is listened to only where its port is free. Where the daemon holds it, what it publishes of the
    device is taken.
    """
    if case.settings is None:
        return case
    held = {device.key for device, port in case.bound() if port.held_by}
    if case.daemon_runs:  # opening a USB device could disturb who has it
        held |= {device.key for device in case.devices() if device.usb is not None}
    free = {device.key: device for device in case.devices() if device.key not in held}
    there = {
        key: device
        for key, device in free.items()
        if device.usb is not None or look_for(case.host.path(device.section.port)) is Sight.THERE
    }
    heard, brokers = await asyncio.gather(hear_all(there, case.clock), _ask_brokers(case, case.settings))
    taken = held | {key for key, one in heard.items() if one.cause == "busy"}
    told = await _told_by_daemon(case, case.settings) if taken else {}
    instead = {key: told[key] for key in taken & told.keys()}
    return replace(case, heard={**heard, **instead}, brokers=brokers)


async def _ask_brokers(case: Case, settings: Settings) -> dict[str, list[BrokerFinding]]:
    if case.mqtt is None or ended(case):
        return {}
    topics = Topics(settings.site)
    sizes = await asyncio.to_thread(published_sizes, settings)
    checks = {
        address: BrokerCheck(case.mqtt, address, topics, settings.node, case.clock, sizes)
        for address in case.mqtt.brokers
    }
    return {address: await check.run() for address, check in checks.items()}


async def _told_by_daemon(case: Case, settings: Settings) -> Mapping[str, Heard]:
    """What the daemon has last published of its devices, from the first broker that answers."""
    if case.mqtt is None:
        return {}
    for address in case.mqtt.brokers:
        try:
            return await _retained(case.mqtt, address, settings)
        except LinkError:
            continue  # the check of this broker says so
    return {}


async def _retained(mqtt: MqttSettings, address: str, settings: Settings) -> Mapping[str, Heard]:
    topics = Topics(settings.site)
    wanted = {
        topics.device(table, name): device.key
        for table, one in settings.tables.items()
        for name, device in one.devices.items()
    }
    heard: dict[str, Heard] = {}
    reader = replace(mqtt, client_id=f"{mqtt.client_id}-doctor")
    async with MqttLink(reader, address, keep_session=False) as link:
        for topic in wanted:
            await link.subscribe(topic)
        try:
            async with asyncio.timeout(_RETAINED_S):
                async for message in link.messages():
                    if message.topic in wanted:
                        heard[wanted[message.topic]] = _as_heard(message.payload)
                    if len(heard) == len(wanted):
                        break
        except TimeoutError:
            pass  # the others have nothing retained
    return heard


def _as_heard(payload: bytes) -> Heard:
    try:
        state = from_json(payload, _DeviceState)
    except msgspec.DecodeError:
        return Heard(by_daemon=True)
    unheard = state.link.get("bytes", 0) - state.link.get("heard_bytes", 0)
    return Heard(state.status, state.identity, unheard, state.cause, "", by_daemon=True)


class _DeviceState(msgspec.Struct, frozen=True):
    """What is needed of the payload of `<table>/device/<name>`."""

    status: str
    cause: str
    identity: dict[str, str]
    link: dict[str, int]
