"""A dice camera and a ChaosKey as real USB devices, read by pyusb through the real libusb."""

from __future__ import annotations

import json

from tests.support.daemon import SITE  # noqa: F401
from tools.rig_test.house import CONFIG, House, payload
from tools.rig_test.machine import MachineError

_RULE = 'SUBSYSTEM=="usb", ATTR{idVendor}=="1209", ATTR{idProduct}=="0001", GROUP="dialout", MODE="0660"\n'
"""What an operator writes for a device that the package does not know."""
_TABLES = """
[tables.d1]
game = "craps"
variant = "place"
rulebook = "qc-r3-95.17-craps"
profile = "qc-r3-95.17"
stakes = { minimum = 100, maximum = 50000, currency = "CAD" }
unresolved_void_after_s = 1

[tables.d1.devices.camera]
driver = "tlp"
role = "dice"
port = "usb:1209:0001:serial=DC000002:in=81:out=02"
expect = { serial = "DC000002" }

[tables.b1]
game = "roulette"
variant = "B"
rulebook = "fi-ray-2013-roulette"
profile = "profile.toml"
stakes = { minimum = 100, maximum = 100000, currency = "EUR" }

[tables.b1.devices.wheel]
driver = "cammegh-ss2"
role = "wheel"
port = "/dev/dolly/by-serial/0403-6001-W37-0002-if00"
expect = { pockets = "37" }

[tables.b1.devices.odds]
driver = "chaoskey"
role = "odds"
port = "usb:1d50:60c6:in=81"
"""
