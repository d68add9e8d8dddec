"""A TLP/1 dealer console: each key counts once, for the round that was meant (tlp-1.md 11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tlp_lines import PERIOD_MS, Host, setup_of
from tests.support.tlp_speakers import Console

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    DeviceReady,
    DeviceTrouble,
    Event,
    Permitted,
    TableClosed,
    TableOpened,
    ThrowRejected,
    VoidDeclared,
)
from dollyd.drivers.protocols.tlp.console import REMEMBERED_MAX
from dollyd.drivers.spec import Badges, Status

ME = "console:console"


def heard(*lines: bytes, **changes: Any) -> Host:
    return Host(setup_of("CN", "tuplanoppa", **changes)).open().hear(*lines, ms=50)


def orders(told: Host) -> list[Any]:
    return [event for event in told.events if not isinstance(event, DeviceReady | DeviceTrouble)]


@pytest.mark.parametrize(
    ("key", "event"),
    [
        ("OPEN", lambda _: TableOpened(ME)),
        ("CLOSE", lambda _: TableClosed(ME)),
        ("NMB", lambda meant: BetsClosed(ME, round=meant)),
        ("VOID", lambda meant: VoidDeclared(ME, "dealer", "console", meant)),
        ("CONFIRM", lambda meant: Confirmed(ME, meant)),
        ("PERMIT", lambda meant: Permitted(ME, meant)),
        ("REJECT", lambda meant: ThrowRejected(ME, "dealer", "console", meant)),
    ],
)
def test_what_a_key_means_and_which_round_was_meant(key: str, event: Callable[[int], Event]) -> None:
    console = Console()
    told = heard(console.hello(), console.key(key), console.key(key, "4711"))
    assert orders(told) == [event(0), event(4_711)]
    assert told.acks == [(1, ""), (2, "4711")]


def test_a_badge_says_who_presses() -> None:
    console = Console()
    lines = [console.hello(), console.key("BADGE", "D17"), console.key("NMB"), console.key("BADGE", "")]
    told = heard(*lines, console.key("CONFIRM"))
    assert orders(told) == [BetsClosed("console:D17"), Confirmed(ME)]
    assert told.acks[:2] == [(1, "D17"), (2, "")]


def test_the_heartbeat_tells_the_badge_too_and_a_reconnect_forgets_it() -> None:
    console = Console()
    told = heard(console.hello(), console.sta("D17"), console.key("NMB")).lose().open()
    told.hear(console.hello(), console.key("NMB"), console.sta("D18"), console.sta(), console.key("NMB"))
    assert [event.by for event in orders(told)] == ["console:D17", ME, "console:D18"]


@pytest.mark.parametrize("key", ["HELP", "", "nmb"])
def test_an_unknown_key_is_acknowledged_and_counted(key: str) -> None:
    console = Console()
    told = heard(console.hello(), console.key(key, "7"))
    assert (orders(told), told.acks) == ([], [(1, "7")])
    assert told.protocol.counters["unknown-key"] == 1


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "99999999999"])
def test_a_round_that_is_no_number_is_no_order(value: str) -> None:
    console = Console()
    told = heard(console.hello(), console.key("VOID", value))
    assert orders(told) == []
    assert told.protocol.counters["unknown-round"] == 1


def test_31_a_key_that_is_repeated_counts_once_and_is_acknowledged_each_time() -> None:
    console = Console()
    hello, nmb, void = console.hello(), console.key("NMB"), console.key("VOID")
    told = heard(hello, nmb, void, nmb, void, console.sta(), nmb)
    assert orders(told) == [BetsClosed(ME), VoidDeclared(ME, "dealer", "console")]
    assert len(told.acks) == 5


def test_the_same_key_pressed_twice_counts_twice() -> None:
    console = Console()
    assert len(orders(heard(console.hello(), console.key("REJECT"), console.key("REJECT")))) == 2


def test_46_a_key_repeated_over_a_reconnect_counts_once() -> None:
    console = Console()
    void = (console.hello(), console.key("VOID"))
    told = heard(*void).lose().open().through_json().hear(void[1], console.hello(), void[1])
    assert len(orders(told)) == 1
    assert told.protocol.counters["key-refused"] == 1  # before it said again who it is
    assert len(told.acks) == 2


def test_after_a_restart_of_the_console_its_numbers_mean_other_keys() -> None:
    console = Console()
    told = heard(console.hello(), console.key("VOID"))
    assert len(orders(told.hear(console.reboot(), console.key("VOID")))) == 2


def test_a_restart_that_nobody_heard_is_found_by_the_heartbeat() -> None:
    console = Console()
    told = heard(console.hello(), console.key("VOID"), *(console.sta() for _ in range(9)))
    console.seq, console.boot = 0, "B2"
    heartbeat, key = console.sta(), console.key("VOID")
    told.hear(heartbeat, key)
    assert len(orders(told)) == 1  # the same sentence as before: not acknowledged, so that it comes again
    assert told.acks == [(1, "")]
    told.hear(console.hello(), key)
    assert len(orders(told)) == 2
    assert len(told.said("QRY")) == 2


def test_what_is_remembered_is_bounded() -> None:
    console = Console()
    told = heard(console.hello(), *(console.key("NMB") for _ in range(3 * REMEMBERED_MAX)))
    assert len(orders(told)) == 3 * REMEMBERED_MAX
    assert len(told.protocol.snapshot().own.heard) == REMEMBERED_MAX


@pytest.mark.parametrize("serial", ["SN2", ""])
def test_29_the_console_of_another_table_gives_no_orders(serial: str) -> None:
    console = Console()
    told = heard(console.hello(serial), console.key("VOID"), expect={"serial": "SN1"})
    assert (orders(told), told.acks) == ([], [])
    assert told.protocol.status is Status.WRONG_DEVICE


def test_a_console_before_its_hello_is_asked_and_not_obeyed() -> None:
    console = Console()
    void = console.key("VOID")
    told = heard(void, console.sta())
    assert (orders(told), told.acks, len(told.said("QRY"))) == ([], [], 2)
    assert len(orders(told.hear(console.hello(), void))) == 1


def test_15_stale_lost_and_faulty() -> None:
    console = Console()
    told = heard(console.hello()).quiet(3 * PERIOD_MS + 1)
    assert told.protocol.status is Status.STALE
    assert told.hear(console.sta(flags="04")).protocol.status is Status.FAULT
    assert told.hear(console.say("FLT", "", "00", "")).protocol.status is Status.READY
    assert told.hear(console.say("FLT", "", "?", "")).protocol.status is Status.FAULT
    assert told.lose().protocol.deadline_ns() is None


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=4, max_size=4), st.integers(0, 99), st.integers(0x20, 0x7E))
def test_9_12_noise_and_flipped_bytes_give_no_other_order(noise: list[bytes], place: int, byte: int) -> None:
    console, told = Console(), heard()
    lines = [console.hello(), console.key("NMB", "7"), console.key("CONFIRM", "7"), console.sta()]
    for garbage, line in zip(noise, lines, strict=True):
        hit = bytearray(line)
        hit[place % len(hit)] = byte
        told.bytes(garbage).bytes(bytes(hit)).bytes(line).bytes(line)
        told.through_json()
    assert [order for order in orders(told) if order not in (BetsClosed(ME, round=7), Confirmed(ME, 7))] == []
    assert len(orders(told)) <= 2


# --- whose badge is worth what -------------------------------------------------------------------

BADGES = Badges({"D17": "dealer", "I2": "inspector"}, session_ms=1_000)


def roles_of(told: Host) -> list[str]:
    return [event.role for event in orders(told)]


def test_a_badge_says_in_which_role_somebody_presses() -> None:
    console = Console()
    lines = [console.hello(), console.key("NMB")]
    for badge in ("D17", "I2", "X9"):
        lines += [console.key("BADGE", badge), console.key("VOID")]
    told = heard(*lines, badges=BADGES)
    assert roles_of(told) == ["dealer", "dealer", "inspector", "unknown-badge"]
    assert orders(told)[2] == VoidDeclared("console:I2", "inspector", "console")


def test_where_badges_are_required_a_key_without_one_counts_for_nothing() -> None:
    console = Console()
    told = heard(console.hello(), console.key("NMB"), badges=replace(BADGES, required=True))
    assert orders(told) == [BetsClosed(ME, role="no-badge")]


def test_without_roles_whoever_is_at_the_console_is_the_dealer() -> None:
    console = Console()
    told = heard(console.hello(), console.key("BADGE", "X9"), console.key("VOID"))
    assert roles_of(told) == ["dealer"]


def test_a_badge_that_lies_there_unused_must_be_shown_again() -> None:
    console = Console()
    told = heard(console.hello(), console.key("BADGE", "D17"), console.key("NMB"), badges=BADGES)
    for _ in range(20):  # the heartbeat shows it, and that is no use of it
        told.hear(console.sta("D17"), ms=100)
    told.hear(console.key("VOID"), console.key("BADGE", "D17"), console.key("VOID"), ms=50)
    assert roles_of(told) == ["dealer", "expired-badge", "dealer"]


def test_keys_keep_a_badge_alive() -> None:
    console = Console()
    told = heard(console.hello(), console.key("BADGE", "D17"), badges=BADGES)
    for _ in range(5):
        told.hear(console.sta("D17"), ms=900)
        told.hear(console.key("NMB"), ms=50)
    assert set(roles_of(told)) == {"dealer"}
