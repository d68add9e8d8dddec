"""Drivers: the one table of what can be plugged in. A new driver is one protocol file and one line here."""

from __future__ import annotations

from dollyd.drivers.framing import LineDecoder
from dollyd.drivers.protocols import cammegh_ss2, tlp
from dollyd.drivers.spec import DriverSpec, Proof, SerialDefaults

DRIVERS: dict[str, DriverSpec] = {
    spec.name: spec
    for spec in (
        DriverSpec(
            name="cammegh-ss2",
            summary="Cammegh SlingShot 2 automatic roulette wheel",
            roles=frozenset({"wheel"}),
            games=frozenset({"roulette"}),
            proves=frozenset({Proof.NUMBER, Proof.TURNS, Proof.DIRECTION}),
            framing=LineDecoder,
            protocol=cammegh_ss2.Ss2Protocol,
            options=cammegh_ss2.OPTIONS,
            needs_secret=False,
            serial=SerialDefaults(baud=9600),
            period_ms=500,
        ),
        DriverSpec(
            name="tlp",
            summary="devices that speak TLP/1; so far the odds box of roulette variant B",
            roles=frozenset(tlp.KINDS),
            games=frozenset({"roulette"}),
            proves=frozenset({Proof.ODDS_TABLE}),
            framing=LineDecoder,
            protocol=tlp.protocol,
            options={},
            needs_secret=True,
            serial=SerialDefaults(baud=115_200),
            period_ms=500,
        ),
    )
}
