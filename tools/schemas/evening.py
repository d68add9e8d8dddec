"""A short evening at a roulette table, made by hand: the chain that the test vectors show and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from tests.support.chains import SITE, ChainMaker, signer

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.roulette import ROULETTE, Variant, parse_layout
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.keys.signing import Signer
from dollyd.wire.command import COMMAND_TYP, Command, Order, digest, encode_command
from dollyd.wire.record import (
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
    ResultBody,
    RoundBody,
    SelfCheckBody,
    SessionBody,
    Setting,
    Stakes,
    ThrowRejectedBody,
    Times,
    UnresolvedBody,
    VoidBody,
    Witness,
)

DATE = "2026-11-29"
MOMENT = Moment(utc="2026-11-29T18:41:20.000000005Z", monotonic_ns=1)
STAKES = Stakes(minimum=200, maximum=50_000, currency="EUR")
SETTING = Setting(
    game="roulette",
    variant="A",
    rulebook=Named(id="fi-ray-2013-roulette", digest="1" * 64),
    profile=Named(id="fi-ray-2013", digest="2" * 64),
    zero_rule="half",
)
EVIDENCE = Evidence(
    game_ref="wheel/s/1",
    times=Times(opened=MOMENT, bets_closed=MOMENT, draw_started=MOMENT, at_rest=MOMENT, confirmed=MOMENT),
    bets_closed_by="wheel",
    confirmed_by="hold",
    devices=[Device(name="wheel", driver="cammegh-ss2", role="wheel", identity={"serial": "S-1"})],
    witnesses=[
        Witness(
            device="wheel",
            game="s/1",
            value=["28"],
            flags=[],
            defects=[],
            relaunches=0,
            turns_basis="counted",
            ball_turns_x100=1_250,
            ball_direction="clockwise",
            details={"note": "Kuula pysähtyi"},
        )
    ],
    capture=Capture(digest="3" * 64, lines=12),
)
SESSION = SessionBody(
    event="opened", by="d1", setting=SETTING, gaming_date=DATE, stakes=STAKES, opened_at=MOMENT.utc
)
_LAYOUTS = Path(__file__).parents[2] / "config" / "layouts"
_EUROPEAN = (_LAYOUTS / "roulette-european.toml").read_bytes()
_A = Variant(layout="roulette-european", zero_rules=("half",), odds={})


def outcome_of(pocket: str) -> dict[str, str | int | bool | list[str]]:
    """What the game says of a pocket."""
    return ROULETTE.outcome(Drawn((pocket,), _A, parse_layout(_EUROPEAN), ()))


OUTCOME = outcome_of("28")
RESULT = ResultBody(
    setting=SETTING, gaming_date=DATE, stakes=STAKES, outcome=OUTCOME, mode="auto", evidence=EVIDENCE
)
UNRESOLVED = UnresolvedBody(
    rule="data-gap", text="frames are missing", setting=SETTING, gaming_date=DATE, evidence=EVIDENCE
)
VOID = VoidBody(
    rule="declared",
    clause="2.6",
    text="declared void",
    stake_policy="returned",
    setting=SETTING,
    gaming_date=DATE,
    declared_by="p1",
    role="pit-boss",
    evidence=EVIDENCE,
)
REJECTED = ThrowRejectedBody(
    rule="rejected-by-person",
    clause="tuplanoppa 1",
    text="a die left the table",
    setting=SETTING,
    gaming_date=DATE,
    throw=1,
    evidence=EVIDENCE,
)


REASON = "the ball lay in 29"


def correction(chain: ChainMaker, number: int) -> CorrectionBody:
    """Round `number` had 29, say an inspector (key 5) and a pit boss (key 6)."""

    def signed(
        by: Signer, order: Order, role: Literal["inspector", "pit-boss"], reason: str = "", proposal: str = ""
    ) -> bytes:
        command = Command(
            v=1,
            site=SITE,
            table=chain.table,
            chain=chain.chain,
            round=number,
            order=order,
            role=role,
            nonce="0" * 32,
            issued="2026-11-29T18:41:10.000000000Z",
            expires="2026-11-29T18:41:40.000000000Z",
            value=("29",),
            reason=reason,
            proposal=proposal,
        )
        return by.sign(encode_command(command), COMMAND_TYP)

    first = signed(signer(5), Order.CORRECT, "inspector", reason=REASON)
    second = signed(signer(6), Order.APPROVE, "pit-boss", proposal=digest(first))
    return CorrectionBody(
        id=digest(first),
        corrects=5,
        element="outcome",
        before=Finding(kind="result", outcome=OUTCOME),
        after=Finding(kind="result", outcome=outcome_of("29")),
        setting=SETTING,
        gaming_date=DATE,
        stakes=STAKES,
        reason=REASON,
        approvals=[
            Approval(operator="i1", role="inspector", command=first.decode()),
            Approval(operator="p1", role="pit-boss", command=second.decode()),
        ],
    )


_DRAWN: dict[str, tuple[tuple[str, ...], tuple[tuple[str, str], ...], str]] = {
    "roulette": (("28",), (), "roulette-european"),
    "boule": (("7", "33"), (), "boule-synthetic"),
    "money-wheel": (("12",), (), "money-wheel-synthetic"),
    "tuplanoppa": (("3", "4"), (("seats", "1 2 5"), ("shooter", "2")), ""),
    "sic-bo": (("4", "4", "1"), (), ""),
    "craps": (("2", "4"), (("point", "8"),), ""),
}
"""By game what was drawn, with what the game remembered, on which wheel."""


def example_outcome(game: str) -> dict[str, str | int | bool | list[str]]:
    """An outcome that may come."""
    value, memory, wheel = _DRAWN[game]
    played = GAMES[game]
    layout = played.layout((_LAYOUTS / f"{wheel}.toml").read_bytes()) if played.layout is not None else None
    return played.outcome(Drawn(value, _A, layout, memory))


def plain(body: Struct) -> dict[str, Any]:
    """A body as `ChainMaker` takes it."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return value


class Evening(ChainMaker):
    """A chain with whole bodies."""

    def say(self, kind: Kind, round_number: int, body: Struct) -> Evening:
        """Add a record."""
        self.add(kind, round_number, plain(body))
        return self

    def open(self) -> Evening:
        """The key and the session."""
        self.begin()
        return self.say(Kind.SESSION, 0, SESSION)

    def bet(self, number: int) -> Evening:
        """A round up to no more bets."""
        self.say(Kind.ROUND, number, RoundBody(game_ref="wheel/s/1", opened=MOMENT))
        return self.say(Kind.BETS_CLOSED, number, BetsClosedBody(by="wheel", closed=MOMENT))

    def result(self, number: int) -> Evening:
        """A round with its result."""
        return self.bet(number).say(Kind.RESULT, number, RESULT)

    def rotate(self, by: Signer) -> Evening:
        """The key changes: announced by the old one."""
        self.say(Kind.KEY, 0, KeyBody(event="rotated", jwk=by.jwk, reason="planned"))
        self.signer = by
        return self

    def checkpoint(self, finals: int) -> Evening:
        """Where the chain stands, with `finals` rounds ended."""
        body = CheckpointBody(reason="hourly", seq=self.seq, head=self.prev, finals=finals)
        return self.say(Kind.CHECKPOINT, 0, body)


def whole_evening() -> Evening:
    """Every kind of record once at least."""
    chain = Evening().open().result(1)
    chain.say(Kind.CORRECTION, 1, correction(chain, 1))
    chain.bet(2).say(Kind.UNRESOLVED, 2, UNRESOLVED).say(Kind.VOID, 2, VOID)
    incident = IncidentBody(what="device-lost", device="wheel", text="unplugged", details={"cause": "eof"})
    chain.say(Kind.INCIDENT, 0, incident)
    chain.say(Kind.GAP, 0, GapBody(cause="downtime", games=["s/3"], count=1, since_utc=MOMENT.utc))
    checked = SelfCheckBody(
        reason="daily",
        version="1.0",
        python="3.11",
        result="good",
        manifest="5" * 64,
        files=90,
        differing=0,
        differs=[],
    )
    chain.say(Kind.SELF_CHECK, 0, checked)
    chain.say(Kind.CLOCK, 0, ClockBody(step_ns=-3_600_000_000_000))
    chain.rotate(signer(2)).bet(3).say(Kind.THROW_REJECTED, 3, REJECTED).say(Kind.RESULT, 3, RESULT)
    return chain.checkpoint(3)
