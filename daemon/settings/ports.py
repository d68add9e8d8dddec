"""Checks of configured ports that can be made before anything is opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dollyd.daemon.settings.load import DeviceSettings
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import Sight, cure, look_for

USB_NODES = Path("/dev/bus/usb")


def check_port(file: str, device: DeviceSettings) -> None:
    """Refuse a port that can never work, whoever uses it. One that is not there may be plugged in later.

    Raises `ConfigError`.
    """
    if device.usb is not None:
        return
    key, port = f"{device.key}.port", Path(device.section.port)
    try:
        mode = port.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        remedy = cure(error, "correct the name of the port")
        raise ConfigError(file, key, f"{port}: {error.strerror}", remedy) from error
    if not stat.S_ISCHR(mode):
        remedy = "name a device like /dev/serial/by-id/..."
        raise ConfigError(file, key, f"{port} is not a serial port", remedy)


def check_access(file: str, device: DeviceSettings) -> None:
    """Refuse a serial port that this process may not use. Raises `ConfigError`."""
    port = Path(device.section.port)
    if device.usb is None and look_for(port) is Sight.THERE and not os.access(port, os.R_OK | os.W_OK):
        remedy = "add dollyd's user to the port's group (usually dialout)"
        raise ConfigError(file, f"{device.key}.port", f"{port} may not be read and written", remedy)
