"""Bets settled a second on one core: straights and even chances on one result."""

from __future__ import annotations

import time
from random import Random

from tools.bench.report import Figure, at_least

from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.client.settlement.settle import settle
from dollyd.client.settlement.spec import Bet

TARGET_A_SECOND = 50_000
MIX: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(("straight", (str(number),)) for number in range(37)),
    ("split", ("17", "20")),
    ("dozen", ("13-24",)),
    ("even_money", ("red",)),
)


def measure(bets: int) -> list[Figure]:
    """Settle so many bets by one result of variant C."""
    rulebook = load_rulebook("fi-ray-2013-roulette")
    named = {"id": rulebook.id, "digest": rulebook.digest}
    outcome = {"pocket": "17", "colour": "black", "parity": "odd", "half": "1-18", "dozen": "13-24"}
    record = {
        "v": 1,
        "kind": "result",
        "body": {
            "setting": {"game": "roulette", "variant": "C", "rulebook": named, "zero_rule": "lose"},
            "stakes": {"minimum": 100, "maximum": 1000, "currency": "EUR"},
            "outcome": outcome,
        },
    }
    random = Random(1)
    placed = [
        Bet(str(number), "roulette", *random.choice(MIX), random.randint(100, 1200)) for number in range(bets)
    ]
    began_s = time.process_time()
    settle(record, placed, rulebook)
    a_second = bets / (time.process_time() - began_s)
    return [at_least("settlement, bets a second and core", a_second, TARGET_A_SECOND, "{:,.0f}")]
