"""Checks of configured ports that can be made before anything is opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dollyd.daemon.settings.load import DeviceSettings
from dollyd.drivers.transports.usb_port import UsbSettings
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import Sight, cure, look_for

USB_DEVICES = Path("/sys/bus/usb/devices")
USB_NODES = Path("/dev/bus/usb")


def check_port(file: str, device: DeviceSettings, *, must_exist: bool) -> None:
    """Refuse a port that can never work, whoever uses it.

    One that is not there is an error only where `must_exist`: a device may be plugged in later.
    Raises `ConfigError`.
    """
    key = f"{device.key}.port"
    if device.usb is None:
        _check_serial(file, key, Path(device.section.port), must_exist=must_exist)
    elif must_exist:
        _check_usb(file, key, device.usb)


def check_access(file: str, device: DeviceSettings) -> None:
    """Refuse a serial port that this process may not use. Raises `ConfigError`."""
    port = Path(device.section.port)
    if device.usb is None and look_for(port) is Sight.THERE and not os.access(port, os.R_OK | os.W_OK):
        remedy = "add dollyd's user to the port's group (usually dialout)"
        raise ConfigError(file, f"{device.key}.port", f"{port} may not be read and written", remedy)


def _check_serial(file: str, key: str, port: Path, *, must_exist: bool) -> None:
    try:
        mode = port.stat().st_mode
    except FileNotFoundError:
        if must_exist:
            remedy = "plug the device in, or correct the name (see /dev/serial/by-id)"
            raise ConfigError(file, key, f"{port} does not exist", remedy) from None
        return
    except OSError as error:
        remedy = cure(error, "correct the name of the port")
        raise ConfigError(file, key, f"{port}: {error.strerror}", remedy) from error
    if not stat.S_ISCHR(mode):
        raise ConfigError(
            file, key, f"{port} is not a serial port", "name a device like /dev/serial/by-id/..."
        )


def _check_usb(file: str, key: str, wanted: UsbSettings) -> None:
    """Look for the device among those that the kernel has listed; nothing is opened."""
    found = [plug for plug in sorted(USB_DEVICES.glob("*-*")) if _is_meant(plug, wanted)]
    if not found:
        remedy = "plug the device in, or correct the name (see lsusb)"
        raise ConfigError(file, key, f"{wanted.name} is not plugged in", remedy)
    if len(found) > 1:
        plugs = ", ".join(plug.name for plug in found)
        raise ConfigError(file, key, f"{wanted.name} is plugged in at {plugs}", "add serial= or path=")


def _is_meant(plug: Path, wanted: UsbSettings) -> bool:
    ids = (_told(plug, "idVendor"), _told(plug, "idProduct"))
    if ids != (f"{wanted.vid:04x}", f"{wanted.pid:04x}") or wanted.port_path not in {"", plug.name}:
        return False
    return wanted.serial in {"", _told(plug, "serial")}


def _told(plug: Path, name: str) -> str:
    """What a device says of itself, empty where it does not."""
    try:
        return (plug / name).read_text("utf-8", errors="replace").strip()
    except OSError:  # an interface of a device has no ids, many devices have no serial number
        return ""
