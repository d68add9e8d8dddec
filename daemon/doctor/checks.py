"""The table of everything that the doctor looks for, in the order in which it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dollyd.daemon.doctor import (
    bound_checks,
    evidence_checks,
    file_checks,
    live_checks,
    machine_checks,
    play_checks,
    port_checks,
)
from dollyd.daemon.doctor.case import Case, Finding, Severity
from dollyd.daemon.settings.faults import Faults
from dollyd.daemon.settings.load import Settings

CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    machine_checks.configuration,
    machine_checks.service,
    machine_checks.credentials,
    machine_checks.sandbox,
    machine_checks.installed_files,
    port_checks.missing_ports,
    port_checks.stale_ports,
    port_checks.held_ports,
    port_checks.forbidden_ports,
    port_checks.forbidden_usb,
    port_checks.unstable_names,
    port_checks.colliding_names,
    port_checks.equal_adapters,
    bound_checks.doubled_nodes,
    port_checks.sleeping_devices,
    port_checks.late_adapters,
    port_checks.loose_plugs,
    port_checks.modem_manager,
    port_checks.brltty,
    live_checks.unheard_devices,
    live_checks.mute_wheels,
    live_checks.wrong_devices,
    live_checks.broken_devices,
    live_checks.unlistened_devices,
    file_checks.file_access,
    file_checks.metrics_access,
    evidence_checks.journal_disk,
    evidence_checks.journal_access,
    evidence_checks.journal_damage,
    evidence_checks.journal_audit,
    play_checks.blocked_tables,
    machine_checks.disk,
    evidence_checks.trust,
    evidence_checks.certificates,
    live_checks.brokers,
    machine_checks.clock,
    machine_checks.time_service,
    machine_checks.suppressed_lines,
)

RIGHTS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    file_checks.file_access,
    evidence_checks.journal_access,
    port_checks.forbidden_ports,
)
"""What the service's user may not do, so that a start would end with one line."""

BEFORE_A_START: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    *RIGHTS,
    file_checks.metrics_access,
    port_checks.forbidden_usb,
    port_checks.unstable_names,
    port_checks.colliding_names,
    port_checks.equal_adapters,
    bound_checks.unbound_devices,
    bound_checks.doubled_nodes,
    evidence_checks.journal_disk,
    machine_checks.disk,
    evidence_checks.trust,
    machine_checks.clock,
    machine_checks.time_service,
)
"""What concerns a configuration before it is used: neither daemon, unit nor device is asked."""


def check_start(case: Case, checks: Iterable[Callable[[Case], Iterator[Finding]]] = ()) -> Settings:
    """Refuse what a start by the service's user would refuse, and faults of other kinds that are asked for.

    Gives what it would be started with. A device that is not plugged in is no reason, nor is what cannot be
    seen from here. Raises `ConfigError`, which holds all that is wrong.
    """
    faults = Faults(case.file)
    for error in case.refused:
        faults.keep(error)
    for one in findings(case, (*RIGHTS, *checks)):
        if one.severity is Severity.FAULT:
            faults.add("", one.what, one.remedy)
    return faults.given(case.settings)


def findings(case: Case, checks: Iterable[Callable[[Case], Iterator[Finding]]] = CHECKS) -> list[Finding]:
    """Everything that is wrong."""
    return [finding for check in checks for finding in check(case)]
