"""Whether retained messages survive a restart of the broker: proved once, by two looks and a person.

That a broker saves its memory to disk cannot be seen from outside. The first look leaves a retained marker;
the person restarts the broker; the second look finds the marker, or does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dollyd.daemon.brokers.finding import Finding, Level
from dollyd.daemon.link.mqtt import Cause, LinkError, MqttLink
from dollyd.wire.decoding import from_json
from dollyd.wire.stamp import NS_PER_S, iso_utc

UPTIME = "$SYS/broker/uptime"
"""Mosquitto's; retained, as `123 seconds`, and as old as its `sys_interval`."""
UPTIME_LAG_S = 60
"""By so much the uptime that is read may lag behind."""
CLOCK_S = 2
"""By so much the clocks of two looks may differ."""
WAIT_S = 1.0
"""What is retained comes at once."""

_SAVES = "persistence true, persistence_location and autosave_interval 10"
_LOST = "a restart loses last results, states, sessions and what waits for absent subscribers"
_AGAIN = "restart the broker, then run `dollyd check --broker --restarted`"
_RIGHT = "add the lines of `dollyd check --acl` to the broker's access list"


class Marker(msgspec.Struct, frozen=True):
    """What the first look leaves. `uptime_s`: how long the broker had run, -1 where it does not tell."""

    utc_ns: int
    uptime_s: int


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw. `marker`: that of an earlier look; `left`: whether one can be left and read back."""

    utc_ns: int
    uptime_s: int
    marker: Marker | None
    left: bool = True


def judge(look: Look, *, restarted: bool) -> Finding:
    """What follows. `restarted`: a person says that the broker was restarted since the look before."""
    unseen = f"that the broker saves its memory cannot be seen from outside; if it does not, {_LOST}"
    marker = look.marker
    if marker is None:
        if not look.left:
            text = f"{unseen}; no marker can be left"
            return _finding(Level.UNKNOWN, text, f"{_RIGHT}, then run this again")
        if restarted:
            text = f"the marker of the look before the restart is gone: {_LOST}"
            return _finding(Level.WRONG, text, f"set {_SAVES}; {_AGAIN}")
        return _finding(Level.UNKNOWN, f"{unseen}; a marker is left", f"to prove it once: {_AGAIN}")
    when = iso_utc(marker.utc_ns)
    outlived = _outlived(look, marker)
    if outlived or (restarted and outlived is None):
        return _finding(Level.GOOD, f"retained messages survive a restart: the marker of {when} did", "")
    if outlived is None:
        return _finding(Level.UNKNOWN, f"{unseen}; the marker of {when} is there", f"to prove it: {_AGAIN}")
    text = f"{unseen}; the broker has not been restarted since the marker of {when}"
    return _finding(Level.WARNING if restarted else Level.UNKNOWN, text, f"to prove it: {_AGAIN}")


def _outlived(look: Look, marker: Marker) -> bool | None:
    """Whether the marker is older than the run of the broker; None where the broker does not tell."""
    age_s = (look.utc_ns - marker.utc_ns) // NS_PER_S
    if look.uptime_s < 0:
        return None
    if look.uptime_s < marker.uptime_s or look.uptime_s + UPTIME_LAG_S < age_s:
        return True
    return False if look.uptime_s > age_s + CLOCK_S else None


def _finding(level: Level, text: str, remedy: str) -> Finding:
    return Finding(level, "persistence", text, remedy)


async def take_look(link: MqttLink, topic: str, utc_ns: int) -> Look:
    """Look for the marker, and leave one where there is none. Raises `LinkError` but for a lack of rights.

    The link is one that has nothing else to hear.
    """
    uptime_s = _seconds(await link.retained(UPTIME, WAIT_S))
    if (marker := _marker(await link.retained(topic, WAIT_S))) is not None:
        return Look(utc_ns, uptime_s, marker)
    mine = msgspec.json.encode(Marker(utc_ns, uptime_s))
    try:
        await link.publish(topic, mine, retain=True)
    except LinkError as error:
        if error.cause is not Cause.DENIED:
            raise
        return Look(utc_ns, uptime_s, None, left=False)
    return Look(utc_ns, uptime_s, None, left=await link.retained(topic, WAIT_S) == mine)


def _marker(payload: bytes | None) -> Marker | None:
    try:
        return from_json(payload, Marker) if payload else None
    except msgspec.DecodeError:
        return None


def _seconds(payload: bytes | None) -> int:
    number = (payload or b"").partition(b" ")[0]
    return int(number) if number.isdigit() and len(number) < 12 else -1
