"""What strikes a game in the middle of state 4, one generator a fault (sequences as in real captures)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dollyd.simulators.ss2.body import (
    FLAG_NOT_DETECTED,
    FLAG_SENSOR,
    Body,
    TableStopped,
)

_SENSOR_PERIODS = 60
"""Flag 4 stays for 30 s before the wheel gives up."""


def _ball_lost(body: Body) -> Iterator[None]:
    yield from body.hold(1, flags=FLAG_NOT_DETECTED)
    yield from body.hold(14, flags=0)
    yield from _sensor_fault(body)


def _ball_blinks(body: Body) -> Iterator[None]:
    for _ in range(7):
        yield from body.hold(1, flags=FLAG_NOT_DETECTED)
        yield from body.hold(body.rng.randint(2, 6), flags=0)
    yield from _brake_and_stop(body)


def _ball_blinks_once(body: Body) -> Iterator[None]:
    yield from body.hold(1, flags=FLAG_NOT_DETECTED)
    body.flags = 0


def _ball_gone(body: Body) -> Iterator[None]:
    yield from body.hold(150, flags=FLAG_NOT_DETECTED)
    raise TableStopped


def _sensor_fault(body: Body) -> Iterator[None]:
    yield from body.hold(_SENSOR_PERIODS, flags=FLAG_SENSOR)
    raise TableStopped


def _runaway(body: Body) -> Iterator[None]:
    while body.speed < 1000:
        body.speed += body.rng.randint(60, 110)
        yield from body.pass_period()
    for body.flags in [0] * 6 + [FLAG_SENSOR] * _SENSOR_PERIODS:
        yield from body.pass_period()
    raise TableStopped


def _rotor_stops(body: Body) -> Iterator[None]:
    for _ in range(6):
        body.speed = 0
        yield from body.pass_period()


def _quiet_stop(body: Body) -> Iterator[None]:
    yield from body.hold(1)
    raise TableStopped


def _brake_and_stop(body: Body) -> Iterator[None]:
    yield from body.brake_down()
    raise TableStopped


def _stuck(body: Body) -> Iterator[None]:
    while True:
        yield from body.hold(1)


def _direction_flip(body: Body) -> Iterator[None]:
    body.direction ^= 1
    yield from body.hold(1)
    body.direction ^= 1


def _silent_death(body: Body) -> Iterator[None]:
    body.dead = True
    yield from _stuck(body)


def _power_cut(body: Body) -> Iterator[None]:
    body.power_lost = True
    yield


IN_NO_MORE_BETS: dict[str, Callable[[Body], Iterator[None]]] = {
    "ball-lost": _ball_lost,
    "ball-blinks": _ball_blinks,
    "ball-blink-result": _ball_blinks_once,
    "ball-gone": _ball_gone,
    "sensor-in-4": _sensor_fault,
    "runaway": _runaway,
    "rotor-stops": _rotor_stops,
    "quiet-stop": _quiet_stop,
    "host-close-in-4": _brake_and_stop,  # another console's *P 0 looks the same from here
    "stuck-in-4": _stuck,
    "direction-flip": _direction_flip,
    "silent-death": _silent_death,
    "power-cut": _power_cut,
}
