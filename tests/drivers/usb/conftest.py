"""A gadget on a bus with a line to it, and nothing left of them after."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.pty_pair import until
from tests.support.usb_line import (
    PID,
    VID,
    Line,
    assert_given_back,
    usb_threads,
)

from dollyd.simulators.usb import SimulatedUsb
from dollyd.simulators.usb_gadget import Gadget, Interface


@pytest.fixture(scope="module", autouse=True)
def quick_collection() -> Iterator[None]:
    """Let `gc.collect` look at what this module made only: it is asked for often."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def gadget() -> Gadget:
    return Gadget(VID, PID, serial="00A1", interfaces=(Interface(kernel_driver=True),))


@pytest.fixture
async def bus(gadget: Gadget) -> SimulatedUsb:
    return SimulatedUsb(gadget)


@pytest.fixture
async def line(bus: SimulatedUsb, gadget: Gadget) -> AsyncIterator[Line]:
    transport = Line(bus)
    yield transport
    await transport.end()
    await until(lambda: not usb_threads(), "thread ended")
    assert_given_back(bus, gadget)
