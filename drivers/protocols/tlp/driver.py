"""Driver `tlp`: devices that speak the open table line protocol; role and game say which kind is expected."""

from __future__ import annotations

from collections.abc import Callable

from dollyd.drivers.protocols.tlp import dice as tlp_dice
from dollyd.drivers.protocols.tlp.ball import BallProtocol
from dollyd.drivers.protocols.tlp.console import ConsoleProtocol
from dollyd.drivers.protocols.tlp.dice import DiceProtocol
from dollyd.drivers.protocols.tlp.money_wheel import MoneyWheelProtocol
from dollyd.drivers.protocols.tlp.odds_box import OddsBoxProtocol
from dollyd.drivers.protocols.tlp.wheel import WheelProtocol
from dollyd.drivers.spec import DeviceProtocol, DeviceSetup

OPTIONS = tlp_dice.OPTIONS


def _wheel(setup: DeviceSetup) -> DeviceProtocol:
    """What turns at a table depends on its game."""
    return MoneyWheelProtocol(setup) if setup.game == "money-wheel" else WheelProtocol(setup)


KINDS: dict[str, Callable[[DeviceSetup], DeviceProtocol]] = {
    "wheel": _wheel,
    "ball": BallProtocol,
    "odds": OddsBoxProtocol,
    "dice": DiceProtocol,
    "console": ConsoleProtocol,
}
"""Protocol by role."""


def protocol(setup: DeviceSetup) -> DeviceProtocol:
    """The protocol of the device in this role."""
    return KINDS[setup.role](setup)
