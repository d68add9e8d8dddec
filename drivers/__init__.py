"""Drivers: the one table of what can be plugged in. A new driver is one protocol file and one line here."""

from __future__ import annotations

from dollyd.daemon.core.events import TurnsBasis
from dollyd.drivers.framing import LineDecoder
from dollyd.drivers.protocols import generators, winning_number_line
from dollyd.drivers.protocols.cammegh_ss2 import driver as cammegh_ss2
from dollyd.drivers.protocols.tlp import driver as tlp
from dollyd.drivers.random_blocks import RandomBlockDecoder
from dollyd.drivers.spec import DriverSpec, Place, Proof, SerialDefaults, UsbDefaults

_ROULETTE = frozenset({"roulette"})
_BALL_GAMES = frozenset({"roulette", "boule"})
_WHEEL_GAMES = _BALL_GAMES | {"money-wheel"}
_DICE_GAMES = frozenset({"tuplanoppa", "sic-bo", "craps"})
_WHOLE_DRAW = frozenset({Proof.NUMBER, Proof.BALL_TURNS, Proof.WHEEL_TURNS, Proof.DIRECTION})
_CERTIFIED = frozenset({TurnsBasis.CERTIFIED})
_COUNTED = frozenset({TurnsBasis.COUNTED, TurnsBasis.REPORTED})
_HOST_DRAWS = Place(_ROULETTE, frozenset({Proof.ODDS_TABLE}))

DRIVERS: dict[str, DriverSpec] = {
    spec.name: spec
    for spec in (
        DriverSpec(
            name="cammegh-ss2",
            summary="Cammegh SlingShot 2 automatic roulette wheel",
            roles={"wheel": Place(_ROULETTE, _WHOLE_DRAW, _CERTIFIED)},
            framing=LineDecoder,
            protocol=cammegh_ss2.Ss2Protocol,
            options=cammegh_ss2.OPTIONS,
            serial=SerialDefaults(baud=9600),
            period_ms=500,
            expects=("firmware",),
        ),
        DriverSpec(
            name="tlp",
            summary="devices that speak TLP/1: wheels, ball detectors, odds boxes, dice cameras, consoles",
            roles={
                "wheel": Place(_WHEEL_GAMES, _WHOLE_DRAW, _COUNTED),
                "ball": Place(_BALL_GAMES, frozenset({Proof.BALL_TURNS}), _COUNTED),
                "odds": Place(_ROULETTE, frozenset({Proof.ODDS_TABLE}), needs_secret=True),
                "dice": Place(_DICE_GAMES, frozenset({Proof.NUMBER})),
                "console": Place(_WHEEL_GAMES | _DICE_GAMES, frozenset()),
            },
            framing=LineDecoder,
            protocol=tlp.protocol,
            options=tlp.OPTIONS,
            serial=SerialDefaults(baud=115_200),
            usb=UsbDefaults(endpoint_in=0x81, endpoint_out=0x01),
            period_ms=500,
            expects=("serial",),
        ),
        DriverSpec(
            name="winning-number-line",
            summary="any roulette wheel with a display output: the number alone on its line",
            roles={"wheel": Place(_ROULETTE, frozenset({Proof.NUMBER}), told_at_end=True)},
            framing=LineDecoder,
            protocol=winning_number_line.WinningNumberLineProtocol,
            options=winning_number_line.OPTIONS,
            serial=SerialDefaults(baud=9600),
            period_ms=500,
        ),
        DriverSpec(
            name="truerng",
            summary="TrueRNG generator; from its bytes the host draws the odds table of roulette variant B",
            roles={"odds": _HOST_DRAWS},
            framing=RandomBlockDecoder,
            protocol=generators.truerng,
            options={},
            serial=generators.TRUERNG_PORT,
            period_ms=500,
        ),
        DriverSpec(
            name="onerng",
            summary="OneRNG generator; from its bytes the host draws the odds table of roulette variant B",
            roles={"odds": _HOST_DRAWS},
            framing=RandomBlockDecoder,
            protocol=generators.onerng,
            options={},
            serial=SerialDefaults(baud=115_200),
            period_ms=500,
        ),
        DriverSpec(
            name="chaoskey",
            summary="ChaosKey generator; from its bytes the host draws the odds table of roulette variant B",
            roles={"odds": _HOST_DRAWS},
            framing=RandomBlockDecoder,
            protocol=generators.chaoskey,
            options={},
            serial=None,
            usb=generators.CHAOSKEY_PORT,
            period_ms=500,
        ),
    )
}
