"""The table of drivers: every line filled, and every word in it known elsewhere."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import cast

import pytest

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.settings.load import DeviceSettings
from dollyd.daemon.table.runner import patience_ms
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import NOTHING, DeviceProtocol, DeviceSetup, DriverSpec, Proof, Status
from dollyd.wire.stamp import Stamp

ROLES = {"wheel", "ball", "odds", "dice", "console"}
AT = Stamp(10**12, 10**18)

each_driver = pytest.mark.parametrize("driver", DRIVERS.values(), ids=lambda driver: driver.name)
each_place = pytest.mark.parametrize(
    ("driver", "role"),
    [(driver, role) for driver in DRIVERS.values() for role in sorted(driver.roles)],
    ids=lambda value: value if isinstance(value, str) else value.name,
)


def test_a_driver_stands_under_its_own_name() -> None:
    assert all(name == driver.name for name, driver in DRIVERS.items())


@each_driver
def test_every_field_is_filled(driver: DriverSpec) -> None:
    may_be_empty = {"options", "serial", "usb", "expects"}
    for field in fields(driver):
        assert field.name in may_be_empty or getattr(driver, field.name), field.name
    assert driver.serial or driver.usb, "there is a way to every device"


@each_driver
def test_roles_games_and_proofs_are_known(driver: DriverSpec) -> None:
    assert set(driver.roles) <= ROLES
    for place in driver.roles.values():
        assert place.games
        assert place.games <= set(GAMES)
        assert place.proves <= set(Proof)


@each_driver
def test_options_are_explained_and_their_defaults_allowed(driver: DriverSpec) -> None:
    for option in driver.options.values():
        assert option.meaning
        assert option.kind in {bool, int}
        if option.kind is int and option.default is not None:
            assert option.most is not None
            assert option.least <= option.default <= option.most


@each_place
def test_turns_are_proven_in_some_way(driver: DriverSpec, role: str) -> None:
    place = driver.roles[role]
    assert bool(place.turns) == bool(place.proves & {Proof.BALL_TURNS, Proof.WHEEL_TURNS})


@each_driver
def test_each_framing_starts_empty(driver: DriverSpec) -> None:
    one, other = driver.framing(), driver.framing()
    assert one is not other
    one.feed(b"half a li")
    assert other.feed(b"x\r\n") == driver.framing().feed(b"x\r\n")


def _protocol(driver: DriverSpec, role: str) -> DeviceProtocol:
    return driver.protocol(DeviceSetup(name="d", role=role, pockets=("0", "1"), secret=b"0123456789abcdef"))


@each_place
def test_b38_a_device_is_not_ready_before_it_speaks(driver: DriverSpec, role: str) -> None:
    protocol = _protocol(driver, role)
    assert protocol.status is Status.INIT
    protocol.opened(AT)
    assert protocol.status is Status.INIT
    assert protocol.identity == ()


@each_place
def test_a_closed_port_has_no_deadline(driver: DriverSpec, role: str) -> None:
    protocol = _protocol(driver, role)
    assert protocol.deadline_ns() is None
    assert protocol.tick(AT) == NOTHING
    protocol.opened(AT)
    protocol.lost("unplugged", AT)
    assert protocol.status is Status.LOST
    assert protocol.deadline_ns() is None
    assert protocol.tick(AT) == NOTHING


@each_place
def test_f5_silence_ends_a_connection_of_every_driver_but_one_that_speaks_once_a_game(
    driver: DriverSpec, role: str
) -> None:
    section = SimpleNamespace(role=role)
    device = SimpleNamespace(driver=driver, section=section, setup=SimpleNamespace(period_ms=500))
    expected = 0 if driver.roles[role].told_at_end else 10_000
    assert patience_ms(cast("DeviceSettings", device)) == expected
