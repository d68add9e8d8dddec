"""An evening of roulette, and the book of the example service that takes its records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from examples.settlement.book import Book
from examples.settlement.database import Database
from tests.support.chains import ChainMaker
from tests.support.tables import layout, roulette

from dollyd.client import Delivered
from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.daemon.core.games.roulette import ROULETTE
from dollyd.daemon.core.games.spec import Drawn
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind, Record

STAKES = {"minimum": 100, "maximum": 1000, "currency": "EUR"}
VOID = "void"
TABLES = "closed, final, bet, booking, dollyd_watermark"
"""Of the service's data base."""


class Evening:
    """One table of roulette, variant D unless said otherwise; a book takes its records."""

    def __init__(self, database: Database, variant: str = "D", zero_rule: str = "prison") -> None:
        self.database = database
        self.book = Book(database)
        self.chain = ChainMaker()
        self.finals: dict[int, tuple[int, str]] = {}
        """Number of the last record that ended each round, and what it said."""
        rulebook = load_rulebook("fi-ray-2013-roulette")
        named = {"id": rulebook.id, "digest": rulebook.digest}
        self._setting = {"game": "roulette", "variant": variant, "rulebook": named, "zero_rule": zero_rule}
        self._variant = roulette(variant)
        self.take(Kind.KEY)

    def sign(self, kind: Kind, number: int = 0, body: dict[str, Any] | None = None) -> Delivered:
        """The next record, which the book has not taken yet."""
        envelope = self.chain.add(kind, number, body)
        return Delivered(msgspec.json.decode(parse_envelope(envelope).payload, type=Record), envelope)

    def take(self, kind: Kind, number: int = 0, body: dict[str, Any] | None = None) -> Delivered:
        delivered = self.sign(kind, number, body)
        self.book.take(delivered)
        return delivered

    def ended(self, body: dict[str, Any]) -> dict[str, Any]:
        return body | {"setting": self._setting, "stakes": STAKES}

    def finding(self, came: str, policy: str = "player_choice") -> dict[str, Any]:
        if came == VOID:
            return {"kind": "void", "stake_policy": policy}
        drawn = Drawn((came,), self._variant, layout(self._variant.layout), ())
        return {"kind": "result", "outcome": ROULETTE.outcome(drawn)}

    def play(self, came: str, policy: str = "player_choice") -> Delivered:
        """The next round, with a number or void."""
        number = len(self.finals) + 1
        self.take(Kind.BETS_CLOSED, number)
        body = self.finding(came, policy)
        kind = Kind(body.pop("kind"))
        self.finals[number] = (self.chain.seq + 1, came)
        return self.take(kind, number, self.ended(body))

    def correct(self, number: int, came: str) -> Delivered:
        """What counted for a round is replaced."""
        corrects, before = self.finals[number]
        self.finals[number] = (self.chain.seq + 1, came)
        body = {"corrects": corrects, "before": self.finding(before), "after": self.finding(came)}
        return self.take(Kind.CORRECTION, number, self.ended(body))

    def bet(self, name: str, kind: str, *selection: str, number: int = 0, stake: int = 200) -> None:
        placed = (name, self.chain.chain, number or len(self.finals) + 1, "roulette", kind)
        self.database.query(
            "INSERT INTO bet (id, chain, round, game, kind, selection, stake) VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(*placed, json.dumps(selection), stake),
        )

    def choose(self, name: str, choice: str) -> None:
        query = "UPDATE bet SET choice = ? WHERE id = ? AND round = ?"
        self.database.query(query, choice, name, len(self.finals) + 1)

    @property
    def cash(self) -> int:
        ((balance,),) = self.database.query("SELECT balance FROM cash")
        return int(balance)

    def booked(self, name: str) -> list[tuple[Any, ...]]:
        """Round, entry, verdict and money, in order."""
        query = "SELECT round, entry, verdict, profit + returned + invalid FROM booking WHERE bet = ?"
        return self.database.query(f"{query} ORDER BY seq, entry, round", name)

    def living(self) -> list[tuple[Any, ...]]:
        """What lies on rounds to come."""
        query = "SELECT id, round, stake, state FROM bet WHERE verdict IS NULL ORDER BY id"
        return [(*place, json.loads(state)) for *place, state in self.database.query(query)]
