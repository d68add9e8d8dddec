"""Display output: the line has no checksum, and a flipped digit is another number.

So the truth is the wire: every number must be a whole clean line of it, in its order, and no line gives two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random

from tests.support.tables import game_setup
from tests.support.wheel_lines import EUROPEAN, device_setup
from tools.fuzz.judge import Outcome, results
from tools.fuzz.streams import Packet, damage
from tools.fuzz.table import HearingTable

from dollyd.daemon.core.events import BetsClosed, HouseEvent
from dollyd.daemon.core.round import Phase, phase
from dollyd.drivers.protocols.winning_number_line import WinningNumberLineProtocol

_SETUP = game_setup("roulette", told_at_end=True)
_DEVICE = device_setup(readings=tuple((number,) for number in EUROPEAN))
_CLEAN = re.compile(rb"(?<![^\r\n])( [0-9]|[1-3][0-9]|00)(?=[\r\n])")
_GAPS_MS = (0, 400, 5_000, 30_000)


class AnnouncedTable(HearingTable):
    """The display tells of no begin and of no more bets: the dealer announces them, here without a pause."""

    def people(self) -> Iterable[HouseEvent]:
        """Whatever is asked of the dealer."""
        yield from super().people()
        if phase(self.engine.table) in {Phase.WAITING, Phase.BETS_OPEN}:
            yield BetsClosed("fuzz")


def stream(rng: Random) -> list[Packet]:
    """Some numbers, now and then one that is shown twice."""
    packets: list[Packet] = []
    for _ in range(rng.randint(4, 20)):
        line = f"{rng.choice(EUROPEAN):>2}".encode("ascii") + rng.choice((b"\r\n", b"\r\n", b"\r", b"\n\r"))
        packets.append(Packet(rng.choice(_GAPS_MS), line))
        if rng.random() < 0.1:
            packets.append(Packet(rng.choice((0, 100)), line))
    return packets


def play(_seed: int, rng: Random) -> Outcome:
    """One stream."""
    packets = stream(rng)
    damage(packets, rng)
    table = AnnouncedTable(_SETUP, {"wheel": WinningNumberLineProtocol(_DEVICE)})
    table.play(packets)
    outcome = Outcome()
    outcome.count(table)
    wire = b"".join(packet.data for packet in packets)
    clean = iter([found.decode("ascii").strip() for found in _CLEAN.findall(wire)])
    given = [str(body.outcome["pocket"]) for body in results(table)]
    if not all(number in clean for number in given):  # in order: each search goes on behind the last
        outcome.failures.append(f"{given} are not lines of the stream")
    outcome.show(packets)
    return outcome
