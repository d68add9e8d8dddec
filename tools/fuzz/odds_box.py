"""Odds box: each draw has one true answer among damaged, foreign and repeated ones."""

from __future__ import annotations

from random import Random

from tests.support.odds_lines import HELLO, PERIOD_MS, Host, answer, proof, sentence
from tools.fuzz.judge import Outcome
from tools.fuzz.streams import Packet, damage

from dollyd.daemon.core.events import OddsDrawn
from dollyd.drivers.framing import LineDecoder


def play(_seed: int, rng: Random) -> Outcome:
    """A few draws of one box."""
    outcome, host, heard = Outcome(), Host().open_ready(), list[bytes]()
    truth: dict[int, str] = {}
    for number in range(1, rng.randint(3, 8)):
        nonce = f"{rng.getrandbits(64):016X}"
        host.ask(number, nonce)
        game, table, count = f"{number:04}", rng.choice("12"), f"{number:09}"
        truth[number] = f"{table} {number} {nonce} {proof(game, table, count, nonce)}"
        lines = [answer(game, table, number, nonce)] * rng.randint(0, 3) + rng.sample(
            heard, min(len(heard), 2)
        )
        other = "1" if table == "2" else "2"
        lines.append(answer(game, other, number, nonce, mac=proof(game, table, count, nonce)))
        lines.append(sentence("HEL", 1, *HELLO))
        rng.shuffle(lines)
        packets = [Packet(rng.choice((0, 100, PERIOD_MS, 1600)), line + b"\r\n") for line in lines]
        heard += lines
        damage(packets, rng)
        decoder = LineDecoder()
        for packet in packets:
            host.quiet(packet.gap_ms)
            host.hear(*(frame.raw for frame in decoder.feed(packet.data)))
    for drawn in host.of(OddsDrawn):
        outcome.counts["drawn"] += 1
        said = f"{drawn.table} {drawn.counter} {drawn.nonce} {drawn.proof}"
        if said != truth[drawn.round]:
            outcome.failures += [
                f"round {drawn.round}: {said} is not {truth[drawn.round]}",
                *map(repr, heard),
            ]
    outcome.counts["refused"] += len(host.causes)
    outcome.counts["heard, bad"] += host.protocol.counters["bad"]
    return outcome
