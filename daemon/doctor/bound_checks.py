"""Whether each name in the configuration is one device, and always the same one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dollyd.daemon.doctor.case import Case, Finding, fault, warning


def unbound_devices(case: Case) -> Iterator[Finding]:
    """A device that could be bound by what it says of itself, and is not."""
    for device in case.devices():
        keys = device.driver.expects
        bound = set(keys) & device.section.expect.keys() or (device.usb is not None and device.usb.serial)
        if keys and not bound:
            what = f"{device.key}: any {device.driver.name} device would do, none is bound"
            told = ", ".join(f'{key} = "..."' for key in keys)
            yield warning("device-unbound", what, f"expect = {{ {told} }}, as the device says it")


def doubled_nodes(case: Case) -> Iterator[Finding]:
    """Two names that lead to one device: one of its two tables would hear another's draws."""
    keys: dict[str, list[str]] = defaultdict(list)
    for device in case.devices():
        if device.usb is None:
            keys[case.host.real(device.section.port)].append(device.key)
        else:
            for usb in case.meant_by(device.usb):
                keys[usb.node].append(device.key)
    for node, names in sorted(keys.items()):
        if len(names) > 1:
            what = f"{' and '.join(names)} are one device, {node}"
            yield fault("one-node", what, "name another port at all of them but one")
