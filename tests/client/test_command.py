"""Signed commands: one form, strict bounds, and a text that says what is signed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.chains import UTC
from tests.support.commands import DEALER, ORDER_MEMBERS, later, order, payload

from dollyd.wire.command import (
    MEMBERS,
    Command,
    Order,
    digest,
    encode_command,
    microseconds,
    read_command,
    text_of,
)
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.record import TYP


def refused(envelope: bytes) -> str:
    with pytest.raises(EnvelopeError) as error:
        read_command(envelope)
    return error.value.reason


@pytest.mark.parametrize("name", Order)
def test_every_order_has_its_form(name: Order) -> None:
    envelope = DEALER.sign(order(name))
    signed = read_command(envelope)
    assert signed.command.order is name
    assert (signed.kid, signed.digest) == (DEALER.key.kid, digest(envelope))
    told = payload(order(name) | {"role": "dealer"})
    assert encode_command(signed.command) == told
    assert text_of(signed.command).startswith(f"{name} at table r1 of site house, as dealer")


def test_every_order_is_known_here() -> None:
    assert set(MEMBERS) == set(Order)
    assert set(ORDER_MEMBERS) == {str(name) for name in Order}


@pytest.mark.parametrize(
    ("name", "missing"),
    [(name, member) for name, (needed, _) in MEMBERS.items() for member in sorted(needed)],
)
def test_what_an_order_needs_is_not_left_out(name: Order, missing: str) -> None:
    members = {key: value for key, value in order(name).items() if key != missing}
    assert refused(DEALER.sign(members)) == "payload"


@pytest.mark.parametrize(
    ("name", "idle"),
    [("confirm", {"value": ["15"]}), ("close", {"round": 1}), ("void", {"proposal": "b" * 64})],
)
def test_what_an_order_would_not_use_is_refused(name: str, idle: dict[str, Any]) -> None:
    assert refused(DEALER.sign(order(name, **idle))) == "payload"


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"site": "House"},
        {"table": "r1/../r2"},
        {"chain": "a" * 31},
        {"round": -1},
        {"round": 2**53},
        {"round": "1"},
        {"order": "pay"},
        {"role": "house"},
        {"nonce": "0" * 31},
        {"issued": "2026-11-29T18:41:20Z"},
        {"issued": "2026-99-29T18:41:20.000000000Z"},
        {"reason": "x" * 201},
        {"reason": "line\nbreak"},
        {"reason": "escape \x1b[2J"},
        {"reason": "turned \u202eround"},
        {"judged_by": "i1"},
        {"judged_by": "../i1", "judged_role": "inspector"},
        {"judged_by": "t1", "judged_role": "technician"},
    ],
    ids=str,
)
def test_bounds_are_strict(change: dict[str, Any]) -> None:
    assert refused(DEALER.sign(order("void", **change))) == "payload"


def test_values_seats_and_checks_are_few() -> None:
    assert refused(DEALER.sign(order("enter", value=["1"] * 9))) == "payload"
    assert refused(DEALER.sign(order("seat", seats=["1"] * 21))) == "payload"
    assert refused(DEALER.sign(order("open", checks={f"c{n}": "ok" for n in range(21)}))) == "payload"


@pytest.mark.parametrize(("seconds", "good"), [(60, True), (60.000001, False), (0, False), (-1, False)])
def test_a_command_lives_for_a_minute_at_most(seconds: float, good: bool) -> None:
    envelope = DEALER.sign(order("confirm", expires=later(UTC, seconds)))
    if good:
        assert read_command(envelope).command.round == 1
    else:
        assert refused(envelope) == "lifetime"


def test_a_record_is_no_command() -> None:
    data = payload(order("confirm") | {"role": "dealer"})
    assert refused(DEALER.sign_bytes(data, TYP)) == "header-typ"
    assert read_command(DEALER.sign_bytes(data)).command.order is Order.CONFIRM


GOOD = payload(order("enter") | {"role": "dealer"})


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        pytest.param(GOOD[:-1] + b',"round":2}', "duplicate-key", id="duplicate-key"),
        pytest.param(GOOD.replace(b'"round":1', b'"round":NaN'), "json", id="nan"),
        pytest.param(GOOD.replace(b'"round":1', b'"round":1.0'), "json", id="float"),
        pytest.param(GOOD.replace(b'"round":1', b'"round":null'), "json", id="null"),
        pytest.param(GOOD + b"{}", "json", id="trailing"),
        pytest.param(GOOD + b" ", "json", id="trailing-space"),
        pytest.param(GOOD.replace(b'"round":1', b'"round": 1'), "form", id="space"),
        pytest.param(GOOD.replace(b'"reason"', b'"r\\u0065ason"'), "form", id="escaped-key"),
        pytest.param(GOOD.replace(b'"reason"', '"rëason"'.encode()), "key-not-ascii", id="unicode-key"),
        pytest.param(GOOD.replace(b'"the sensor', b'"\\u0074he sensor'), "form", id="escaped-text"),
        pytest.param(GOOD[:-1] + b',"amount":"1"}', "payload", id="unknown-member"),
        pytest.param(GOOD[:-1] + b',"seats":[]}', "form", id="member-without-meaning"),
        pytest.param(GOOD.replace(b'["15"]', b"[" * 50 + b"]" * 50), "json", id="deep"),
        pytest.param(GOOD.replace(b'["15"]', b"[" * 100_000 + b"]" * 100_000), "too-long", id="deeper"),
        pytest.param(GOOD.replace(b'{"v":1,', b"{") [:-1] + b',"v":1}', "form", id="other-order"),
        pytest.param(GOOD.replace(b"sensor", b"\xff\xfe"), "json", id="no-utf-8"),
        pytest.param(b"[]", "json", id="no-object"),
        pytest.param(b"null", "json", id="nothing"),
    ],
)  # fmt: skip
def test_attack_json_tricks(trick: bytes, reason: str) -> None:
    """Whatever could be read in two ways, or in no way, is refused though its signature is right."""
    assert refused(DEALER.sign_bytes(trick)) == reason


@pytest.mark.parametrize("spoil", [b"", b"{}", b"x" * 16_385, b"\x00", b"[" * 16_000])
def test_what_is_no_envelope_is_refused(spoil: bytes) -> None:
    assert refused(spoil)
    assert refused(DEALER.sign(order("confirm")) + b"\n")


def test_the_text_says_all_that_is_signed() -> None:
    members = order("void", judged_by="i1", judged_role="inspector")
    text = text_of(read_command(DEALER.sign(members)).command)
    for said in ("round:     1", "a coin", "i1, inspector", "a" * 32, members["expires"]):
        assert said in text
    correcting = {k: v for k, v in order("correct").items() if k != "value"}
    assert "VOID" in text_of(read_command(DEALER.sign(correcting)).command)
    opening = text_of(read_command(DEALER.sign(order("open"))).command)
    assert "wheel: level" in opening


def test_times_are_read_to_the_microsecond() -> None:
    assert microseconds("1970-01-01T00:00:01.000002999Z") == 1_000_002


def test_a_command_that_nobody_would_take_is_not_made() -> None:
    good = read_command(DEALER.sign(order("confirm"))).command
    with pytest.raises(EnvelopeError):
        encode_command(msgspec.structs.replace(good, round=0))
    assert isinstance(good, Command)
