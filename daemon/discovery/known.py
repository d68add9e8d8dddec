"""USB devices that are known by their numbers (devices part 5)."""

from __future__ import annotations

ADAPTERS = {
    ("0403", "6001"): "FTDI FT232R",
    ("0403", "6010"): "FTDI FT2232",
    ("0403", "6011"): "FTDI FT4232",
    ("0403", "6015"): "FTDI FT-X",
    ("067b", "2303"): "Prolific PL2303",
    ("067b", "23a3"): "Prolific PL2303GC",
    ("10c4", "ea60"): "Silicon Labs CP210x",
    ("1a86", "55d4"): "WCH CH9102",
    ("1a86", "7523"): "WCH CH340",
}
"""Serial adapters: anything may be behind them. Opening one does no harm."""
GENERATORS = {
    ("04d8", "f5fe"): "truerng",
    ("04d8", "ebb5"): "truerng",
    ("16d0", "0aa0"): "truerng",
    ("1d50", "6086"): "onerng",
    ("1d50", "60c6"): "chaoskey",
}
"""Generators, by their driver. They are never opened to find out: a speed is a command to some of them."""
RULED_VENDORS = frozenset({"0403", "067b", "10c4", "1a86"})
"""Makers of adapters, all of whose devices our udev rules (60-dollyd.rules) give to dollyd."""


def own_rule(vid: str, pid: str) -> str:
    """The udev rule that an operator writes for a device; empty where ours have it already."""
    if vid in RULED_VENDORS or (vid, pid) in GENERATORS:
        return ""
    ids = f'ATTRS{{idVendor}}=="{vid}", ATTRS{{idProduct}}=="{pid}"'
    ours = 'GROUP="dialout", MODE="0660", ENV{ID_MM_DEVICE_IGNORE}="1"'
    return f'SUBSYSTEM=="usb|tty", {ids}, {ours}, TEST=="power/control", ATTR{{power/control}}="on"'
