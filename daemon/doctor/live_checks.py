"""What can be wrong with what answers: the brokers and the devices (faults B30, B37; devices part 1)."""

from __future__ import annotations

from collections.abc import Iterator

from dollyd.daemon.brokers.finding import Level
from dollyd.daemon.discovery.listening import Heard
from dollyd.daemon.doctor.case import Case, Finding, Severity, fault, warning
from dollyd.daemon.settings.load import DeviceSettings
from dollyd.drivers.spec import Status
from dollyd.drivers.transports.ports import SETTINGS_CHANGED

PUSH = 128
"""Bit of the wheel's mode: it sends its status by itself."""
_NOT_HEARD = frozenset({"silent", "noise", SETTINGS_CHANGED})
"""Causes of an open line on which no sentence comes."""
_LAST_WORDS_BYTES = 256
"""Of a device that loses its power or its cable in the middle of a sentence no more comes than this."""


def brokers(case: Case) -> Iterator[Finding]:
    """B30: what a broker cannot give. Ids are those of `dollyd check --broker`, e.g. `broker-queue`."""
    severities = {Level.WRONG: Severity.FAULT, Level.WARNING: Severity.WARNING}
    for address, findings in case.brokers.items():
        for found in findings:
            if found.level in severities and found.what != "clock":  # a check of its own looks at the clock
                what = f"{address}: {found.text}"
                yield Finding(f"broker-{found.what}", severities[found.level], what, found.remedy)


def unheard_devices(case: Case) -> Iterator[Finding]:
    """A device that could not be listened to, is mute, or speaks at another speed."""
    for device, heard in _heard(case):
        key = device.key
        if heard.by_daemon and (heard.status in {Status.LOST, Status.STALE} or heard.cause in _NOT_HEARD):
            yield _unheard_by_daemon(key, heard)
        elif heard.cause and heard.cause not in {"busy", "not-found", "no-permission"}:
            yield fault(
                "port-unusable", f"{key}: {heard.cause} {heard.detail}".rstrip(), "unplug it, plug it in"
            )
        elif heard.cause or heard.by_daemon or heard.understood:
            continue
        elif heard.bytes and not _speaks_ss2(heard):
            baud = device.section.baud or (device.driver.serial.baud if device.driver.serial else 0)
            what = f"{key}: {heard.bytes} bytes came and no sentence of {device.driver.name} ({baud} Bd)"
            yield fault("wrong-baud", what, "correct `baud` or `driver`, or set the device's own speed back")
        elif not heard.identity:
            remedy = "see its power, its cable (crossed, 2 and 3) and the device's port"
            yield fault("device-silent", f"{key}: it says nothing", remedy)


def mute_wheels(case: Case) -> Iterator[Finding]:
    """A SlingShot whose output is off: mode bit 128, or the switch of `*q`."""
    for device, heard in _heard(case):
        if device.driver.name != "cammegh-ss2":
            continue
        mode = heard.identity.get("mode", "")
        if heard.identity.get("status_output") == "off":
            what = f"{device.key}: the wheel's status output is switched off (`*q 0`)"
            yield fault("ss2-output-off", what, "have the wheel's engineer send `*q 1`")
        elif mode.isdecimal() and not int(mode) & PUSH and not device.setup.options.get("polled"):
            what = f"{device.key}: the wheel's mode {mode} lacks bit {PUSH}: it sends no status by itself"
            yield fault(
                "ss2-mode-128", what, "have the mode's bit set at the wheel, or options.polled = true"
            )


def wrong_devices(case: Case) -> Iterator[Finding]:
    """Another device than the one that is bound to this table."""
    for device, heard in _heard(case):
        expected = dict(device.setup.expect)
        if device.driver.name == "cammegh-ss2":
            expected = {"pockets": str(len(device.setup.pockets))} | expected
        wrong = {
            key: heard.identity[key]
            for key, value in expected.items()
            if heard.identity.get(key, value) != value
        }
        if "pockets" in wrong:
            what = (
                f"{device.key}: a wheel with {wrong['pockets']} pockets, the table has {expected['pockets']}"
            )
            yield fault(
                "wrong-pockets", what, "fit the wheel of this table, or correct `variant` or `layout`"
            )
        elif wrong:
            said = ", ".join(f"{key} is {value!r}, not {expected[key]!r}" for key, value in wrong.items())
            remedy = "plug in the device of this table, or correct `expect`"
            yield fault("wrong-device", f"{device.key}: {said}", remedy)
        elif heard.status == Status.WRONG_DEVICE:
            kind = heard.identity.get("kind", "another kind of device")
            what = f"{device.key}: {kind} answers where a {device.section.role} should"
            yield fault("wrong-device", what, "swap the plugs, or correct `port` and `role`")


def broken_devices(case: Case) -> Iterator[Finding]:
    """A device that says itself that it is out of order."""
    for device, heard in _heard(case):
        if heard.status == Status.FAULT:
            yield fault("device-fault", f"{device.key}: it reports a fault", "see the device's own display")


def unlistened_devices(case: Case) -> Iterator[Finding]:
    """The daemon holds the port, and no broker could say what it hears."""
    for device, port in case.bound():
        if case.brokers and port.held_by and device.key not in case.heard:
            what = f"{device.key}: the daemon holds the port, and its state is not to be had from a broker"
            yield warning("device-unknown", what, "mend the broker, or stop dollyd and ask again")


def _unheard_by_daemon(key: str, heard: Heard) -> Finding:
    """The daemon has the port and hears no sentence: whether bytes come tells the line from the device."""
    said = f"{key}: {heard.status} ({heard.cause or 'no word of it'}), says the daemon"
    if heard.cause == SETTINGS_CHANGED:
        what = f"{said}: another program has set the port otherwise"
        return fault("port-settings", what, "end the program that the log names (`settings-changed`)")
    if heard.bytes > _LAST_WORDS_BYTES and heard.cause in _NOT_HEARD | {""}:
        what = f"{said}; bytes come ({heard.bytes} since its last sentence), but no line"
        remedy = "see speed and wiring: `baud`, `driver`, the device's own speed, its cable"
        return fault("device-garbled", what, remedy)
    return fault("device-silent", f"{said}; nothing comes", "see its power and its cable")


def _speaks_ss2(heard: Heard) -> bool:
    """Only an answer of a wheel came, and no status."""
    return bool(heard.identity)


def _heard(case: Case) -> Iterator[tuple[DeviceSettings, Heard]]:
    return ((device, case.heard[device.key]) for device in case.devices() if device.key in case.heard)
