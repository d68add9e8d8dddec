"""Random generators: no odds table from bytes before the order, none after a health failure, none twice.

The block that must decide is known beforehand: the one behind the block that was under way at the order,
counted from the last opening of the port. Its table is worked out here once more, apart from the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from random import Random

from tests.support.tables import game_setup
from tests.support.wheel_lines import EUROPEAN, device_setup
from tools.fuzz.judge import Outcome, results
from tools.fuzz.streams import Packet
from tools.fuzz.table import HearingTable

from dollyd.daemon.core.events import BetsClosed, OddsDrawn
from dollyd.daemon.table.engine import Input, Op, Output
from dollyd.drivers import DRIVERS
from dollyd.drivers.protocols.winning_number_line import WinningNumberLineProtocol
from dollyd.drivers.random_blocks import BLOCK_BYTES
from dollyd.drivers.spec import DeviceSetup
from dollyd.simulators.generators import GeneratorOptions, TrueRng

_DRIVERS = ("truerng", "onerng", "chaoskey")
_SETUP = game_setup("roulette", variant="B", told_at_end=True)
_WHEEL = device_setup(readings=tuple((number,) for number in EUROPEAN))
_ROUNDS = 3
_WINDOW_BYTES = 512
_STEP_MS = 100
_OPTIONS = GeneratorOptions(bytes_per_s=20_000)
_FAULTS = ("rng-stuck", "rng-repeats", "rng-biased", "rng-stalls", "rng-short-reads")
_NOTICED_AT_ONCE = frozenset({"rng-stuck", "rng-repeats"})
"""Faults that are found in the first window that is full of them."""
_UNPLUGGED, _CUT = "eof", "overrun"


class OddsTable(HearingTable):
    """A table whose odds table the host draws, and the stream as it came since the port was opened."""

    def __init__(self, rng: Random) -> None:
        spec = DRIVERS[rng.choice(_DRIVERS)]
        self.came = bytearray()
        self.ordered: dict[int, tuple[str, int]] = {}
        """By round: the nonce, and how many bytes had come since the port was opened."""
        self.bad_from: int | None = None
        """Behind this window's end the stream must be known as bad, None where it is good."""
        self.out_of_order = False
        """It was known as bad, and has not been unplugged since."""
        self._rng = rng
        devices = {
            "wheel": WinningNumberLineProtocol(_WHEEL),
            "odds": spec.protocol(DeviceSetup("odds", "odds")),
        }
        super().__init__(_SETUP, devices, {"odds": spec.framing()})

    def take_bytes(self, data: bytes, *, bad: bool) -> Iterator[str]:
        """Bytes of the generator; gives what is wrong with the draws that they make."""
        start = -(-len(self.came) // _WINDOW_BYTES) * _WINDOW_BYTES
        if bad and self.bad_from is None and len(self.came) + len(data) >= start + _WINDOW_BYTES:
            self.bad_from = start + _WINDOW_BYTES
        self.came += data
        told = len(self.events)
        self.hear(Packet(_STEP_MS, data, "odds"))
        for event in self.events[told:]:
            if isinstance(event, OddsDrawn):
                yield from self._untrue(event)

    def cut(self, cause: str) -> None:
        """The port is lost and opened again: the stream begins anew, or goes on somewhere."""
        known_bad = self.bad_from is not None and len(self.came) >= self.bad_from
        self.out_of_order = cause != _UNPLUGGED and (self.out_of_order or known_bad)
        self.came.clear()
        self.bad_from = None
        self.drop_port("odds", cause)

    def _take(self, item: Input) -> Output:
        output = super()._take(item)
        for number in output.odds_wanted:
            nonce = f"{self._rng.getrandbits(64):016X}"
            self.ordered[number] = nonce, len(self.came)
            super()._take(Input(Op.DRAW, item.at, "odds", f"{number} {nonce}"))
        return output

    def _untrue(self, drawn: OddsDrawn) -> Iterator[str]:
        nonce, ordered_at = self.ordered[drawn.round]
        end = (ordered_at // BLOCK_BYTES + 2) * BLOCK_BYTES
        block = bytes(self.came[end - 32 : end])
        proof = hashlib.sha256(f"HG1,{nonce},{block.hex()}".encode("ascii")).hexdigest()[:16].upper()
        if (drawn.nonce, drawn.proof) != (nonce, proof):
            yield f"{drawn} is not of the block that must decide"
        elif drawn.table != (2 if int.from_bytes(block[:4], "big") % 30 == 0 else 1):
            yield f"{drawn} is not what the block draws"
        if self.out_of_order or (self.bad_from is not None and end >= self.bad_from):
            yield f"{drawn} although the stream is bad"


def play(_seed: int, rng: Random) -> Outcome:
    """A few rounds; the stream is damaged, the wheel is not."""
    outcome, table = Outcome(), OddsTable(rng)
    model = TrueRng(_OPTIONS, rng, 0)
    told: list[str] = []
    now_ms = 0
    for _ in range(_ROUNDS):
        steps = rng.randint(14, 26)
        closes_at = rng.randrange(8)
        for step in range(steps):
            now_ms += _STEP_MS
            told += _mishap(table, model, rng)
            if step == closes_at:
                table.tell(BetsClosed("fuzz"))
            data = model.advance(now_ms * 1_000_000)
            faults = [fault for fault in _FAULTS if model.faults.on(fault)]
            if rng.random() < 0.05:
                data = data[rng.randrange(len(data) + 1) :]  # lost, and nobody knows
            outcome.failures += table.take_bytes(data, bad=not _NOTICED_AT_ONCE.isdisjoint(faults))
        number = rng.choice(EUROPEAN)
        table.hear(Packet(0, f"{number:>2}\r\n".encode("ascii"), "wheel"))
    table.wait(600_000)
    outcome.count(table)
    outcome.counts["drawn"] += sum(isinstance(event, OddsDrawn) for event in table.events)
    outcome.failures += _recorded_otherwise(table)
    if outcome.failures:
        outcome.failures += told
    return outcome


def _mishap(table: OddsTable, model: TrueRng, rng: Random) -> Iterator[str]:
    """Now and then the generator fails, is mended, or its port is cut."""
    chance = rng.random()
    if chance < 0.01:
        fault = rng.choice(_FAULTS)
        model.faults.set(fault)
        yield f"{len(table.came)}: {fault}"
    elif chance < 0.03:
        cause = rng.choice((_UNPLUGGED, _CUT))
        for fault in _FAULTS:
            model.faults.clear(fault)
        yield f"{len(table.came)}: mended, {cause}"
        table.cut(cause)
    elif chance < 0.04:
        yield f"{len(table.came)}: silence"
        table.wait(rng.choice((400, 2_500)))


def _recorded_otherwise(table: OddsTable) -> Iterator[str]:
    drawn = {event.nonce: event for event in table.events if isinstance(event, OddsDrawn)}
    for body in results(table):
        odds = body.odds
        event = drawn.get(odds.nonce) if odds else None
        if not odds or event is None or (odds.table, odds.proof) != (event.table, event.proof):
            yield f"{odds} was not drawn"
