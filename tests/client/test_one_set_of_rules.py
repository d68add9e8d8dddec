"""Whatever the verifier calls WRONG is delivered to nobody: over damage of every kind, and a stolen key."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.chains import SITE, keys, signer
from tests.support.commands import trust
from tests.support.malice import MALICE, evening, second_chain, signed
from tools.agree.damage import DAMAGE
from tools.schemas.evening import whole_evening

from dollyd.client import ChainError, Delivered, GapError
from dollyd.client.proof.verify import verify_envelopes
from dollyd.client.stream.reader import Reader
from dollyd.wire.jws import EnvelopeError, parse_envelope

PINNED = keys(signer(1), signer(3))
SOURCES: dict[str, Any] = {"pinned": PINNED, "trust-file": trust(keys=[signer(1), signer(3)])}
often = pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.long)])
"""So many tries of each kind of damage, and four times as many of what a thief may sign."""


def delivered(lines: list[bytes], source: Any) -> tuple[list[Delivered], int]:
    """What a stream gives of these lines, and how many errors it raises."""
    reader = Reader(SITE, source, {}, rng=Random(1))
    given: list[Delivered] = []
    errors = 0
    for line in lines:
        try:
            table = msgspec.json.decode(parse_envelope(line).payload).get("table", "r1")
        except EnvelopeError:
            table = "r1"
        reader.hear(str(table), line)
        while True:
            try:
                one = reader.next()
            except (ChainError, GapError):
                errors += 1
                continue
            if one is None:
                break
            given.append(one)
    return given, errors


def check(lines: list[bytes], source: Any, told: str) -> bool:
    """What is delivered is good; tells whether the whole file is."""
    report = verify_envelopes(lines, source)
    given, errors = delivered(lines, source)
    again = verify_envelopes([one.envelope for one in given], source) if given else None
    assert again is None or again.problems == [], (told, again.problems)
    if report.ok and not any("is not here" in note for note in report.notes):  # a stream asks for that one
        assert errors == 0, (told, errors)
        assert len(given) == report.records, told
    return report.ok


@pytest.mark.parametrize("source", SOURCES)
def test_the_chains_that_are_damaged_here_are_good(source: str) -> None:
    assert check(signed(evening()).envelopes, SOURCES[source], "untouched")


@often
@pytest.mark.parametrize("name", DAMAGE)
def test_attack_1_whatever_is_damaged_only_what_is_good_is_delivered(name: str, rounds: int) -> None:
    for number in range(rounds):
        rng = Random(f"{name} {number}")
        maker = whole_evening() if rng.random() < 0.5 else signed(evening())
        check(DAMAGE[name](maker.envelopes, rng), PINNED, f"{name} {number}")


@often
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", MALICE)
def test_attack_1_and_5_whatever_a_stolen_key_signs_only_what_is_good_is_delivered(
    name: str, source: str, rounds: int
) -> None:
    good = 0
    for number in range(4 * rounds):
        rng = Random(f"{name} {number}")
        steps = MALICE[name](evening(), rng)
        good += check(signed(steps).envelopes, SOURCES[source], f"{name} {number}")
    assert good < 4 * rounds


@often
def test_attack_3b_and_3c_whatever_chains_a_stolen_key_begins_only_what_is_good_is_delivered(
    rounds: int,
) -> None:
    good = 0
    for number in range(4 * rounds):
        rng = Random(number)
        old = signed(evening())
        new = second_chain(old, rng)
        lines = [*old.envelopes, *new.envelopes]
        if rng.random() < 0.3:
            lines += old.play(9, 9).envelopes[-3:]
        good += check(lines, PINNED, str(number))
    assert 0 < good < 4 * rounds
