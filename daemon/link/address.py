"""Where a broker listens, as a configuration writes it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """Where one broker listens."""

    host: str
    port: int
    tls: bool


def parse_broker(text: str) -> Address:
    """Read `host:port`, optionally after `mqtt://` or `mqtts://`; raises ValueError saying what is wrong."""
    parts = urlsplit(text if "://" in text else f"mqtt://{text}")
    if parts.scheme not in {"mqtt", "mqtts"}:
        raise ValueError(f"scheme {parts.scheme!r} is neither mqtt nor mqtts")
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        raise ValueError("only host and port belong here")
    tls = parts.scheme == "mqtts"
    if not parts.hostname or " " in parts.hostname:
        raise ValueError("the host is missing")
    return Address(parts.hostname, parts.port or (8883 if tls else 1883), tls)
