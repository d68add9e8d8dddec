"""What can be wrong with the machine and the service (faults B40, B41, B42, B48, B49)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from dollyd.daemon.doctor.case import BE_ROOT, Case, Finding, fault, warning
from dollyd.daemon.doctor.credentials import absent, source_of
from dollyd.daemon.doctor.unit import NAME
from dollyd.daemon.host.self_check import BAD, check_files
from dollyd.daemon.settings.ports import USB_NODES
from dollyd.wire.files import Sight, look_for

_TIME_SERVICES = (
    "chrony.service",
    "chronyd.service",
    "systemd-timesyncd.service",
    "ntpsec.service",
    "ntp.service",
    "openntpd.service",
)
_SUPPRESSED = re.compile(r"Suppressed ([0-9]+) messages from (dollyd\S*)")


def configuration(case: Case) -> Iterator[Finding]:
    """Whatever `dollyd run` would refuse to start with."""
    for error in case.refused:
        place = f"{error.key}: " if error.key else ""
        yield fault(_config_id(error.key, error.problem), f"{place}{error.problem}", error.remedy)


def _config_id(key: str, problem: str) -> str:
    if problem == "unknown key":
        return "config-unknown-key"
    if "are not of one pair" in problem:
        return "cert-key"
    return {
        "signing.key": "key-file",
        "signing.next_key": "key-file",
        "signing.trust": "trust-file",
        "signing.root": "trust-file",
    }.get(key, "config")


def clock(case: Case) -> Iterator[Finding]:
    """The time in the records is nobody's but this machine's."""
    if not case.clock.quality().synchronised:
        yield fault("clock", "the clock follows no time server", "see `chronyc tracking` or `timedatectl`")


def time_service(case: Case) -> Iterator[Finding]:
    """Nothing that could set the clock is running."""
    states = case.host.run(("systemctl", "is-active", *_TIME_SERVICES)).split()
    if states and "active" not in states:
        yield fault("time-service", "no time service is running", "`apt-get install chrony`")


def installed_files(case: Case) -> Iterator[Finding]:
    """The program is not the one that was built."""
    answer = check_files("asked", case.package)
    if answer.result == BAD:
        what = f"{answer.differing} installed files differ from the build, e.g. {answer.differs[0]}"
        yield fault("program-changed", what, "install the package again, and ask who changed it")


def sandbox(case: Case) -> Iterator[Finding]:
    """B41: a device that the unit hides from the service."""
    if not case.unit.lines:
        return
    wanted = [
        (device.key, case.host.real(device.section.port))
        for device in case.devices()
        if device.usb is None and look_for(case.host.path(device.section.port)) is Sight.THERE
    ]
    wanted += [(device.key, f"{USB_NODES}/001/001") for device in case.devices() if device.usb]
    for key, node in wanted:
        if node.startswith("/dev/") and not case.unit.lets_see(node):
            what = f"{key}: {NAME} hides {node} from the service"
            remedy = "`systemctl edit dollyd`: PrivateDevices=no, and a DeviceAllow= for it with rw"
            yield fault("sandbox", what, remedy)


def service(case: Case) -> Iterator[Finding]:
    """The unit is not there, not enabled, or has given up."""
    unit = case.unit
    if not unit.state:
        return
    if not unit.known:
        yield warning("unit-missing", f"systemd knows no {NAME}", "install the package")
        return
    if unit.told("UnitFileState") not in {"enabled", "enabled-runtime", "static"}:
        yield fault("unit-disabled", f"{NAME} will not start with the machine", "`systemctl enable dollyd`")
    if unit.told("Result") == "start-limit-hit":
        remedy = "`systemctl reset-failed dollyd`, put StartLimitIntervalSec=0 back, and start it"
        yield fault("start-limit", f"systemd has given up starting {NAME}", remedy)
    elif unit.told("ActiveState") == "failed":
        what = f"{NAME} has failed ({unit.told('Result')}, exit {unit.told('ExecMainStatus')})"
        yield fault(
            "unit-failed", what, "`journalctl -u dollyd -n 20` says why; then `systemctl start dollyd`"
        )
    elif unit.told("ActiveState") == "inactive":
        yield fault("unit-stopped", f"{NAME} is not running", "`systemctl start dollyd`")


def credentials(case: Case) -> Iterator[Finding]:
    """A secret comes as a credential, and systemd has nothing to make it of."""
    for key, path in absent(case.settings) if case.settings is not None else ():
        source = source_of(path, case.unit)
        if not source:
            what = f"{key} is {path}, and {NAME} loads no such credential"
            yield fault("credential", what, "correct its name, or LoadCredential= of the unit")
        elif look_for(case.host.path(source)) is Sight.MISSING:
            what = f"{source}, of which {key} is made, is not there"
            yield fault("credential-missing", what, "put it there, for root only (mode 0600)")
        else:
            what = f"{key} is made of {source}, which was not looked at"
            yield warning("credential-unseen", what, BE_ROOT)


def suppressed_lines(case: Case) -> Iterator[Finding]:
    """B42: the log has lost lines of ours. Evidence is in the journal of records, never only in the log."""
    words = ("journalctl", "--boot", "--unit=systemd-journald.service", "--output=cat", "--no-pager")
    counts = [int(count) for count, _ in _SUPPRESSED.findall(case.host.run((*words, "--lines=1000")))]
    if counts:
        what = f"the system's log has thrown away {sum(counts)} lines of dollyd"
        yield warning("log-suppressed", what, "find what is repeated; set LogRateLimitBurst= in the unit")


def disk(case: Case) -> Iterator[Finding]:
    """Little room where the journal is."""
    if case.settings is None or not (folder := _existing(case.settings.journal.path)):
        return
    room = os.statvfs(folder)
    free_mb = room.f_bavail * room.f_frsize // 1_000_000
    journal = case.settings.journal
    remedy = "make room, or give the journal a disk of its own"
    if free_mb < journal.floor_mb:
        what = f"{free_mb} MB free below {folder}, less than journal.floor_mb: no round is opened"
        yield fault("disk-full", what, remedy)
    elif free_mb < journal.low_mb:
        yield warning("disk-low", f"{free_mb} MB free below {folder}, less than journal.low_mb", remedy)


def _existing(path: str) -> str:
    """The nearest folder above that is there."""
    folders = Path(path).absolute().parents
    return next((str(one) for one in folders if look_for(one) is Sight.THERE and one.is_dir()), "")
