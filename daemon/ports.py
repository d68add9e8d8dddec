"""Checks of configured ports that can be made before anything is opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dollyd.daemon.errors import ConfigError
from dollyd.daemon.settings import DeviceSettings


def check_port(file: str, device: DeviceSettings, *, must_exist: bool) -> None:
    """Refuse a port that can never work: not a serial port, or one that this user may not use.

    A port that is not there is an error only where `must_exist`: a device may be plugged in later.
    Raises `ConfigError`.
    """
    port = Path(device.section.port)
    key = f"{device.key}.port"
    try:
        mode = port.stat().st_mode
    except FileNotFoundError:
        if must_exist:
            remedy = "plug the device in, or correct the name (see /dev/serial/by-id)"
            raise ConfigError(file, key, f"{port} does not exist", remedy) from None
        return
    except OSError as error:
        raise ConfigError(file, key, f"{port}: {error.strerror}", "correct the name of the port") from error
    if not stat.S_ISCHR(mode):
        raise ConfigError(
            file, key, f"{port} is not a serial port", "name a device like /dev/serial/by-id/..."
        )
    if not os.access(port, os.R_OK | os.W_OK):
        remedy = "add dollyd's user to the port's group (usually dialout)"
        raise ConfigError(file, key, f"{port} may not be read and written", remedy)
