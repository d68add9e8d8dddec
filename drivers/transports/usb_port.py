"""Which USB device a configuration means, as one text.

    usb:VID:PID[:serial=TEXT][:path=BUS-PORT.PORT...][:interface=N][:in=HEX][:out=HEX]
    usb:1d50:60c6:serial=00A1:in=85

VID, PID and the endpoint addresses are hexadecimal, as lsusb shows them; `path` is the plug's name in
/sys/bus/usb/devices and in the kernel's log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_TIMEOUT_MS = 250
"""No call to a device may last longer, or a shutdown could not be answered in 2 s."""

_ID = re.compile(r"[0-9a-fA-F]{4}")
_PATH = re.compile(r"[0-9]{1,3}-[0-9]{1,3}(\.[0-9]{1,3}){0,6}")
_ENDPOINT = re.compile(r"(0x)?[0-9a-fA-F]{1,2}")
_INTERFACE = re.compile(r"[0-9]{1,2}")
_SERIAL = re.compile(r"[\x21-\x39\x3b-\x7e]{1,126}")  # no colon: it parts the text
_DIRECTION_IN = 0x80


@dataclass(frozen=True, slots=True)
class UsbSettings:
    """One USB device, by what it is and where it is plugged in; empty `serial` or `port_path` = any.

    `endpoint_out`: None where nothing is ever sent.
    `read_bytes`: asked for at once, a multiple of the packet size; None = one packet, which comes whole or
    not at all. More is faster on a stream, but then a message that fills its last packet, of a device that
    does not mark the end of such a message, is taken for one that was cut off.
    `pause_ms`: after each read that brought something, for a device that would never stop.
    `timeout_ms`: of each call, 1..250. `write_deadline_ms`: a device that takes no byte for so long is lost.
    Raises ValueError where a device can never be reached so.
    """

    vid: int
    pid: int
    serial: str = ""
    port_path: str = ""
    interface: int = 0
    endpoint_in: int = 0x81
    endpoint_out: int | None = None
    read_bytes: int | None = None
    timeout_ms: int = 100
    write_deadline_ms: int = 1000
    pause_ms: int = 0

    def __post_init__(self) -> None:
        if not self.endpoint_in & _DIRECTION_IN:
            raise ValueError(f"endpoint {self.endpoint_in:02x} is no IN endpoint (80 or more)")
        if self.endpoint_out is not None and self.endpoint_out & _DIRECTION_IN:
            raise ValueError(f"endpoint {self.endpoint_out:02x} is no OUT endpoint (below 80)")
        if not 1 <= self.timeout_ms <= LONGEST_TIMEOUT_MS:
            raise ValueError(f"timeout_ms {self.timeout_ms} is not within 1..{LONGEST_TIMEOUT_MS}")
        if self.read_bytes is not None and self.read_bytes < 1:
            raise ValueError(f"read_bytes {self.read_bytes} is less than 1")

    @property
    def name(self) -> str:
        """The shortest text that means this device."""
        parts = [f"usb:{self.vid:04x}:{self.pid:04x}"]
        parts += [f"serial={self.serial}"] if self.serial else []
        parts += [f"path={self.port_path}"] if self.port_path else []
        return ":".join(parts)


def parse_usb(text: str) -> UsbSettings:
    """The device that a configured port means. Raises ValueError, whose text says what is wrong."""
    kind, *rest = text.split(":")
    if kind != "usb" or len(rest) < 2:
        raise ValueError(f"{text!r} is not of the form usb:VID:PID[:serial=...][:path=...]")
    (vid, pid), options = rest[:2], rest[2:]
    for name, value in (("VID", vid), ("PID", pid)):
        if not _ID.fullmatch(value):
            raise ValueError(f"{name} {value!r} is not four hexadecimal digits")
    given = _options(options)
    return UsbSettings(
        vid=int(vid, 16),
        pid=int(pid, 16),
        serial=given.get("serial", ""),
        port_path=given.get("path", ""),
        interface=int(given.get("interface", "0")),
        endpoint_in=int(given.get("in", "81"), 16),
        endpoint_out=int(given["out"], 16) if "out" in given else None,
    )


_FORMS = {
    "serial": (_SERIAL, "printable characters without spaces"),
    "path": (_PATH, "a name of /sys/bus/usb/devices such as 1-2.3"),
    "interface": (_INTERFACE, "a small number"),
    "in": (_ENDPOINT, "a hexadecimal endpoint address such as 81"),
    "out": (_ENDPOINT, "a hexadecimal endpoint address such as 01"),
}


def _options(texts: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in _FORMS:
            raise ValueError(f"{text!r} is none of {', '.join(f'{known}=' for known in _FORMS)}")
        if name in given:
            raise ValueError(f"{name}= is given twice")
        form, meaning = _FORMS[name]
        if not form.fullmatch(value):
            raise ValueError(f"{name}={value!r} is not {meaning}")
        given[name] = value
    return given
