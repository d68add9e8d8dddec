"""Driver `tlp`: devices that speak the open table line protocol; the role says which kind is expected."""

from __future__ import annotations

from collections.abc import Callable

from dollyd.drivers.protocols.tlp_odds_box import OddsBoxProtocol
from dollyd.drivers.spec import DeviceProtocol, DeviceSetup

KINDS: dict[str, Callable[[DeviceSetup], DeviceProtocol]] = {
    "odds": OddsBoxProtocol,
}
"""Protocol by role."""


def protocol(setup: DeviceSetup) -> DeviceProtocol:
    """The protocol of the device in this role."""
    return KINDS[setup.role](setup)
