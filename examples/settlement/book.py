"""Bets and what became of them: one transaction a record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

from dollyd.client import Delivered
from dollyd.client.settlement import (
    Bet,
    Choice,
    Round,
    SettlementError,
    carried,
    findings,
    read_round,
    rulebook_of_digest,
    settle_bet,
)

from .database import Database

HELD = "held"
"""Verdict of a bet that people must settle."""
Record: TypeAlias = Mapping[str, Any]
"""The payload of a verified record."""
Booked: TypeAlias = tuple[str, int, int, int]
"""Verdict, profit, returned, invalid."""
Choices: TypeAlias = Mapping[int, tuple[str, int]]
"""What a player chose for the rounds to come, by round: `choice` and `working` of `bet`."""

_rulebook = cache(rulebook_of_digest)


class Book:
    """Bets and what became of them. Money in minor units."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, delivered: Delivered) -> None:
        """Do all that a record leads to, and keep its watermark, in one transaction.

        Raises `SettlementError` for a record that cannot be settled by at all; nothing is kept then.
        """
        record = delivered.payload
        with self._database.transaction():
            match record["kind"]:
                case "key" | "bets-closed":  # the key begins the chain: no round is closed yet
                    self._close(record)
                case "result" | "void":
                    self._close(record)
                    self._keep(record)
                    self._settle(record)
                case "correction":
                    _before, after = findings(record)
                    self._keep(after)
                    self._settle(record)
            self._database.watermarks.save(delivered.watermark)

    def _close(self, record: Record) -> None:
        self._database.query(
            "INSERT INTO closed VALUES (?, ?) ON CONFLICT (chain) DO UPDATE SET round = excluded.round"
            " WHERE excluded.round > closed.round",
            *(record["chain"], record["round"]),
        )

    def _keep(self, final: Record) -> None:
        """Keep how a round ended, in place of what was kept before."""
        self._database.query(
            "INSERT INTO final VALUES (?, ?, ?)"
            " ON CONFLICT (chain, round) DO UPDATE SET payload = excluded.payload",
            *(final["chain"], final["round"], json.dumps(final)),
        )

    def _settle(self, record: Record) -> None:
        """Settle the bets of a round; those that were settled by what is corrected now, again."""
        chain, first = record["chain"], record["round"]
        bets = self._database.query(
            "SELECT id, verdict FROM bet WHERE chain = ? AND round = ? ORDER BY id", chain, first
        )
        if not bets:
            return  # nobody asks by which rulebook
        rounds = self._rounds_since(chain, first)
        for name, verdict in bets:
            choices = self._take_back(name, record) if verdict else {}
            self._play(name, record, rounds, choices)

    def _rounds_since(self, chain: str, first: int) -> dict[int, Round]:
        """The rounds from `first` on that have ended: one, unless an old one is corrected."""
        query = "SELECT round, payload FROM final WHERE chain = ? AND round >= ?"
        finals = {number: json.loads(text) for number, text in self._database.query(query, chain, first)}
        return {number: read_round(final, _rulebook(digest_of(final))) for number, final in finals.items()}

    def _play(self, name: str, record: Record, rounds: Mapping[int, Round], choices: Choices) -> None:
        """Book what becomes of a bet in the round of the record, and in all after it that its stake sees."""
        number, stays = record["round"], True
        while stays and number in rounds:
            row = self._row(name, number)
            try:
                playing = bet_of(name, row)
                answer = settle_bet(playing, rounds[number])
                onward = carried(playing, answer)
            except Exception as error:  # noqa: BLE001  whatever is wrong with it, it is one bet
                why = str(error) if isinstance(error, SettlementError) else f"bet {name}: {error!r}"
                print(f"HELD: {plain(why)}", flush=True)
                self._book(record, name, number, "settled", (HELD, 0, 0, 0), why)
                return
            booked = (answer.verdict.value, answer.profit, answer.returned, answer.invalid)
            self._book(record, name, number, "settled", booked)
            number += 1
            stays = onward is not None
            if onward:
                choice, working = choices.get(number, (Choice.NONE.value, 0))
                onward = replace(onward, choice=Choice(choice), working=bool(working))
                self._carry(onward, record["chain"], number)

    def _take_back(self, name: str, record: Record) -> Choices:
        """Reverse what was booked for a bet from the corrected round on; gives what was chosen since."""
        choices = {}
        for number, verdict, choice, working in self._database.query(
            "SELECT round, verdict, choice, working FROM bet WHERE id = ? AND round >= ? ORDER BY round",
            *(name, record["round"]),
        ):
            if verdict:
                ((profit, returned, invalid),) = self._database.query(
                    "SELECT profit, returned, invalid FROM booking"
                    " WHERE bet = ? AND round = ? AND entry = 'settled' ORDER BY seq DESC LIMIT 1",
                    *(name, number),
                )
                self._book(record, name, number, "reversed", (verdict, -profit, -returned, -invalid))
            if number > record["round"]:
                choices[number] = (choice, working)
                self._database.query("DELETE FROM bet WHERE id = ? AND round = ?", name, number)
        return choices

    def _book(
        self, record: Record, name: str, number: int, entry: str, booked: Booked, reason: str = ""
    ) -> None:
        """Write down what became of a bet in a round, by the record that says so."""
        self._database.query(
            "INSERT INTO booking VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(name, record["chain"], number, record["seq"], entry, *booked, reason),
        )
        self._database.query("UPDATE bet SET verdict = ? WHERE id = ? AND round = ?", booked[0], name, number)
        if record["kind"] == "correction":
            verdict, *money = booked
            print(f"CORRECTED: bet {name}, round {number}: {entry} {verdict} {sum(money):+}", flush=True)

    def _row(self, name: str, number: int) -> tuple[Any, ...]:
        (row,) = self._database.query(
            "SELECT game, kind, selection, stake, state, choice, working FROM bet WHERE id = ? AND round = ?",
            *(name, number),
        )
        return row

    def _carry(self, bet: Bet, chain: str, number: int) -> None:
        """The stake that stays takes part in the next round."""
        self._database.query(
            "INSERT INTO bet (id, chain, round, game, kind, selection, stake, state, choice, working,"
            " carried) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            *(bet.id, chain, number, bet.game, bet.kind, json.dumps(bet.selection), bet.stake),
            *(json.dumps(dict(bet.state)), bet.choice.value, int(bet.working)),
        )


def plain(text: str) -> str:
    """What others say, for a terminal that it must not steer."""
    return ascii(text)[1:-1]


def bet_of(name: str, row: tuple[Any, ...]) -> Bet:
    """A row of `bet`. Raises `SettlementError` or `ValueError` for one that is no bet."""
    game, kind, selection, stake, state, choice, working = row
    chosen = Choice(choice)
    return Bet(
        name, game, kind, tuple(json.loads(selection)), stake, json.loads(state), chosen, bool(working)
    )


def digest_of(final: Record) -> str:
    """By which rulebook a round was decided. Raises `SettlementError` where the record does not say."""
    try:
        return str(final["body"]["setting"]["rulebook"]["digest"])
    except (KeyError, TypeError):
        raise SettlementError(f"round {final['round']} names no rulebook") from None
