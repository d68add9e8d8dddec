"""The exact bytes of records: no floats, no nulls, ASCII keys, a fixed order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec import inspect as types

from dollyd.wire.record import (
    BODIES,
    FINAL_KINDS,
    NO_PREVIOUS,
    VERSION,
    Approval,
    BetsClosedBody,
    Capture,
    CheckpointBody,
    ClockBody,
    CorrectionBody,
    Device,
    Evidence,
    Finding,
    GapBody,
    IncidentBody,
    KeyBody,
    Kind,
    Moment,
    Named,
    Odds,
    Record,
    ResultBody,
    RoundBody,
    SelfCheckBody,
    SessionBody,
    Setting,
    Stakes,
    ThrowRejectedBody,
    Time,
    Times,
    UnresolvedBody,
    VoidBody,
    Witness,
    encode,
)

WHEN = Moment(utc="2026-11-29T18:41:20.000000005Z", monotonic_ns=7)
NAMED = Named(id="text", digest="ab" * 32)
SETTING = Setting(game="roulette", variant="D", rulebook=NAMED, profile=NAMED, zero_rule="prison")
STAKES = Stakes(minimum=100, maximum=100_000, currency="EUR")
ODDS = Odds(table=2, device="odds", counter=9, nonce="0" * 16, proof="F" * 16, drawn=WHEN)
EVIDENCE = Evidence(
    game_ref="wheel/s/001",
    times=Times(opened=WHEN, bets_closed=WHEN, draw_started=WHEN, at_rest=WHEN, confirmed=WHEN),
    bets_closed_by="wheel",
    confirmed_by="auto",
    devices=[Device(name="wheel", driver="cammegh-ss2", role="wheel", identity={"pockets": "38"})],
    witnesses=[
        Witness(
            device="wheel",
            game="wheel/s/001",
            value=["00"],
            flags=["launch-failed"],
            defects=["data-gap"],
            relaunches=1,
            turns_basis="counted",
            ball_turns_x100=400,
            wheel_turns_x100=250,
            turns_lower_bound=True,
            ball_direction="clockwise",
            wheel_direction="counter-clockwise",
            details={"bare_number": "00"},
        )
    ],
    capture=Capture(digest="cd" * 32, lines=80),
)
APPROVALS = [
    Approval(operator="d7", role="dealer", command="{}"),
    Approval(operator="p1", role="pit-boss", command="{}"),
]
FULL: dict[Kind, Struct] = {
    Kind.SESSION: SessionBody(
        event="closed",
        by="configuration",
        setting=SETTING,
        gaming_date="2026-11-29",
        stakes=STAKES,
        opened_at=WHEN.utc,
        closed_at=WHEN.utc,
        checks={"level": "good"},
    ),
    Kind.ROUND: RoundBody(game_ref="wheel/s/001", opened=WHEN),
    Kind.BETS_CLOSED: BetsClosedBody(by="wheel", closed=WHEN),
    Kind.RESULT: ResultBody(
        setting=SETTING,
        gaming_date="2026-11-29",
        stakes=STAKES,
        outcome={"pocket": "00", "wheel_index": 19, "seats": ["1", "3"], "pair": True},
        odds=ODDS,
        mode="manual",
        reason="the sensor was dead",
        approvals=APPROVALS,
        evidence=EVIDENCE,
    ),
    Kind.VOID: VoidBody(
        rule="declared",
        clause="2.1",
        text="öl på duken",
        stake_policy="player_choice",
        setting=SETTING,
        gaming_date="2026-11-29",
        declared_by="d7",
        role="dealer",
        judged_by="i2",
        judged_role="inspector",
        odds=ODDS,
        evidence=EVIDENCE,
    ),
    Kind.THROW_REJECTED: ThrowRejectedBody(
        rule="not-together",
        clause="tuplanoppa 1",
        text="t",
        setting=SETTING,
        gaming_date="2026-11-29",
        throw=2,
        shooter="3",
        declared_by="d7",
        role="dealer",
        evidence=EVIDENCE,
    ),
    Kind.UNRESOLVED: UnresolvedBody(
        rule="data-gap", text="t", setting=SETTING, gaming_date="2026-11-29", odds=ODDS, evidence=EVIDENCE
    ),
    Kind.CORRECTION: CorrectionBody(
        id="ab" * 32,
        corrects=7,
        element="verdict",
        before=Finding(kind="result", outcome={"pocket": "17"}),
        after=Finding(kind="void", rule="corrected", stake_policy="player_choice"),
        setting=SETTING,
        gaming_date="2026-11-29",
        stakes=STAKES,
        odds=ODDS,
        reason="the video",
        approvals=APPROVALS,
    ),
    Kind.INCIDENT: IncidentBody(what="relaunch", device="wheel", text="t", details={"by": "d7"}),
    Kind.GAP: GapBody(cause="daemon-down", games=["wheel/s/001"], count=1, since_utc=WHEN.utc, down_ms=5),
    Kind.KEY: KeyBody(
        event="chain-start",
        jwk={"kty": "OKP"},
        reason="new-journal",
        previous_chain="a" * 32,
        previous_seq=4,
    ),
    Kind.CHECKPOINT: CheckpointBody(reason="hourly", seq=9, head="ab" * 32, finals=2),
    Kind.SELF_CHECK: SelfCheckBody(
        reason="start",
        version="1.0",
        python="3.11.2",
        result="bad",
        manifest="ab" * 32,
        files=200,
        differing=1,
        differs=["changed daemon/app.py"],
    ),
    Kind.CLOCK: ClockBody(
        step_ns=-5,
        cause="restart",
        synchronised=True,
        gaming_date="2026-11-29",
        gaming_date_before="2026-11-30",
    ),
}
"""One body of each kind with every field set."""


def values(tree: Any) -> Iterator[Any]:
    yield tree
    if isinstance(tree, dict):
        for key, value in tree.items():
            assert key.isascii(), f"key {key!r}"
            yield from values(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from values(value)


@pytest.mark.parametrize("kind", BODIES, ids=str)
def test_every_body_encodes_and_decodes(kind: Kind) -> None:
    body = FULL[kind]
    assert type(body) is BODIES[kind]
    for field in body.__struct_fields__:
        assert getattr(body, field) is not msgspec.UNSET, f"{field} is not covered by this test"
    assert msgspec.json.decode(encode(body), type=BODIES[kind]) == body


@pytest.mark.parametrize("kind", BODIES, ids=str)
def test_a_body_holds_no_float_no_null_and_ascii_keys(kind: Kind) -> None:
    for value in values(msgspec.json.decode(encode(FULL[kind]))):
        assert isinstance(value, str | int | bool | list | dict), value


def parts_of(kind: types.Type) -> Iterator[types.Type]:
    """A type and everything that can stand inside it."""
    yield kind
    match kind:
        case types.StructType():
            for field in kind.fields:
                yield from parts_of(field.type)
        case types.ListType():
            yield from parts_of(kind.item_type)
        case types.DictType():
            yield from parts_of(kind.key_type)
            yield from parts_of(kind.value_type)
        case types.UnionType():
            for option in kind.types:
                yield from parts_of(option)
        case _:
            pass


ALLOWED = (
    types.StructType,
    types.ListType,
    types.DictType,
    types.UnionType,
    types.StrType,
    types.IntType,
    types.BoolType,
)


@pytest.mark.parametrize("body", [*BODIES.values(), Time], ids=lambda body: body.__name__)
def test_no_field_can_hold_a_float_or_a_null(body: type[Struct]) -> None:
    for part in parts_of(types.type_info(body)):
        assert isinstance(part, ALLOWED), part


@pytest.mark.parametrize("body", BODIES.values(), ids=lambda body: body.__name__)
def test_a_field_that_may_be_left_out_is_unset_or_false_and_never_null(body: type[Struct]) -> None:
    for part in parts_of(types.type_info(body)):
        if isinstance(part, types.StructType):
            for field in msgspec.structs.fields(part.cls):
                if not field.required:
                    assert field.default is msgspec.UNSET or field.default is False, (
                        f"{part.cls.__name__}.{field.name}"
                    )


def test_what_is_not_known_is_left_out() -> None:
    body = VoidBody(
        rule="r",
        clause="c",
        text="t",
        stake_policy="returned",
        setting=SETTING,
        gaming_date="2026-11-29",
        evidence=EVIDENCE,
    )
    assert not {"declared_by", "role", "odds"} & msgspec.json.decode(encode(body)).keys()


def test_the_header_in_its_exact_bytes() -> None:
    record = Record(
        v=VERSION,
        kind=Kind.CLOCK,
        site="helsinki-1",
        node="pit3-box1",
        table="roulette-1",
        chain="c" * 8,
        seq=1,
        prev=NO_PREVIOUS,
        round=0,
        time=Time(utc=WHEN.utc, monotonic_ns=7, boot="b", synchronised=False, error_bound_us=-1),
        body=msgspec.Raw(encode(ClockBody(step_ns=-5))),
    )
    golden = (
        b'{"v":1,"kind":"clock","site":"helsinki-1","node":"pit3-box1","table":"roulette-1",'
        b'"chain":"cccccccc","seq":1,"prev":"' + b"0" * 64 + b'","round":0,'
        b'"time":{"utc":"2026-11-29T18:41:20.000000005Z","monotonic_ns":7,"boot":"b",'
        b'"synchronised":false,"error_bound_us":-1},"body":{"step_ns":-5}}'
    )
    assert encode(record) == golden


def test_a_result_in_its_exact_bytes() -> None:
    golden = (
        '{"setting":{"game":"roulette","variant":"D","rulebook":{"id":"text","digest":"NAME"},'
        '"profile":{"id":"text","digest":"NAME"},"zero_rule":"prison"},"gaming_date":"2026-11-29",'
        '"stakes":{"minimum":100,"maximum":100000,"currency":"EUR"},'
        '"outcome":{"pocket":"00","wheel_index":19,"seats":["1","3"],"pair":true},'
        '"odds":{"table":2,"device":"odds","counter":9,"nonce":"0000000000000000",'
        '"proof":"FFFFFFFFFFFFFFFF","drawn":WHEN},"mode":"manual","reason":"the sensor was dead",'
        '"approvals":[{"operator":"d7","role":"dealer","command":"{}"},'
        '{"operator":"p1","role":"pit-boss","command":"{}"}],'
        '"evidence":{"game_ref":"wheel/s/001","times":{"opened":WHEN,"bets_closed":WHEN,'
        '"draw_started":WHEN,"at_rest":WHEN,"confirmed":WHEN},"bets_closed_by":"wheel",'
        '"confirmed_by":"auto","devices":[{"name":"wheel","driver":"cammegh-ss2","role":"wheel",'
        '"identity":{"pockets":"38"}}],"witnesses":[{"device":"wheel","game":"wheel/s/001",'
        '"value":["00"],"flags":["launch-failed"],"defects":["data-gap"],"relaunches":1,'
        '"turns_basis":"counted","ball_turns_x100":400,"wheel_turns_x100":250,"turns_lower_bound":true,'
        '"ball_direction":"clockwise","wheel_direction":"counter-clockwise",'
        '"details":{"bare_number":"00"}}],"capture":{"digest":"CAPTURE","lines":80}}}'
    )
    golden = golden.replace("WHEN", '{"utc":"2026-11-29T18:41:20.000000005Z","monotonic_ns":7}')
    golden = golden.replace("NAME", "ab" * 32).replace("CAPTURE", "cd" * 32)
    assert encode(FULL[Kind.RESULT]).decode() == golden


def test_kinds_are_words_that_fit_a_topic() -> None:
    for kind in Kind:
        assert re.fullmatch(r"[a-z-]+", kind)


def test_a_round_ends_with_a_result_or_a_void_only() -> None:
    assert {Kind.RESULT, Kind.VOID} == FINAL_KINDS
