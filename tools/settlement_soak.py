"""Settlement soak: `python -m tools.settlement_soak`. Example service, real broker, `kill -9` for both.

A synthetic chain of rounds with random numbers, odds tables and voids is journaled and published. Service and
broker are killed at random moments; the publisher begins again some records before where it was, as a daemon
does after its death. Afterwards each bet was settled once, and the cash is what an independent count says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiomqtt
from tests.support.broker import Mosquitto, until
from tests.support.chains import ChainMaker, signer
from tests.support.daemon import TOPICS, Told, told
from tools.truth import SoakError, check

from dollyd.client.settlement.rulebooks import load_rulebook
from dollyd.daemon.core.games.roulette import ROULETTE, Variant, parse_layout
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.record import Kind
from dollyd.daemon.core.rulebook import convert
from dollyd.daemon.journal import Journal

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "examples" / "settlement_service.py"
PREFIX = TOPICS.record("r1", "result").removesuffix("/record/result")
BROKER = "autosave_interval 5\nmax_queued_messages 0\n"
STAKE = 200
PLACED = (("straight", "17"), ("even_money", "red"), ("dozen", "13-24"), ("quarter", "1-9"))
"""Kinds and selections on each round. Quarters are not on this table's cloth: people settle them."""
PLACE_BET = "INSERT INTO bet (id, chain, round, game, kind, selection, stake) VALUES (?, ?, ?, ?, ?, ?, ?)"
SETTLE_S = 300.0
"""The publisher is faster than the service, which syncs its data base at each record."""
ROUNDS_A_BATCH = 20
SENT_AGAIN = 30
"""Records that a publisher sends again when it begins again, at most."""


# --- the service and its judge ---------------------------------------------------------------------


class Service:
    """The service as a child process that can be killed and started again."""

    def __init__(self, broker: Mosquitto, jwks: Path, directory: Path, journal: Path | None) -> None:
        self.data = directory / "settlement.db"
        self.log = directory / "settlement.log"
        self._command = [sys.executable, str(SERVICE), "--broker", broker.address, "--table", PREFIX]
        self._command += ["--keys", str(jwks), "--data", str(self.data)]
        self._journal = ["--journal", str(journal)] if journal else []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start it, with more arguments."""
        with self.log.open("ab") as log:
            command = [*self._command, *self._journal, *more]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(5)
            self._process = None

    @property
    def code(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.poll() if self._process else None

    async def settling(self) -> None:
        """Wait until it has subscribed."""
        await until(lambda: "settling" in self.said, 20)

    @property
    def said(self) -> str:
        """All that it has printed, over all its lives."""
        return self.log.read_text() if self.log.exists() else ""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read from its data base."""
        with closing(sqlite3.connect(self.data, timeout=30)) as database:
            return database.execute(query).fetchall()

    def watermark(self) -> int:
        """How far it has settled the chain."""
        return int(self.rows("SELECT coalesce(max(seq), 0) FROM watermark")[0][0])

    def place(self, chain: str, rounds: range) -> None:
        """What the till does."""
        bets = [
            (f"{number}-{kind}", chain, number, "roulette", kind, json.dumps([name]), STAKE)
            for number in rounds
            for kind, name in PLACED
        ]
        with closing(sqlite3.connect(self.data, timeout=30)) as database, database:
            database.executemany(PLACE_BET, bets)


@contextmanager
def service(broker: Mosquitto, jwks: Path, directory: Path, journal: Path | None = None) -> Iterator[Service]:
    """The service, running; it is killed at the end."""
    child = Service(broker, jwks, directory, journal)
    child.start()
    try:
        yield child
    finally:
        child.kill()


def paid(record: Told) -> dict[str, int]:
    """What each kind of bet is paid by a record of variant B, counted without the library."""
    if record.kind == "void":
        return {kind: STAKE for kind, _ in PLACED}
    outcome, table = record.body["outcome"], record.body["odds"]["table"]
    return {
        "straight": STAKE * (61 if table == 2 else 31) if outcome["pocket"] == "17" else 0,
        "even_money": STAKE * 2 if outcome["colour"] == "red" else 0,
        "dozen": STAKE * 3 if outcome["dozen"] == "13-24" else 0,
        "quarter": 0,
    }


def judge(settling: Service, journal: Sequence[Told]) -> int:
    """Every bet of a round that ended was settled once, and the cash is what an independent count says.

    Gives the number of rounds that ended. Raises `SoakError`.
    """
    finals = {record.round: record for record in journal if record.kind in ("result", "void")}
    expected = {
        f"{number}-{kind}": money for number, record in finals.items() for kind, money in paid(record).items()
    }
    payouts = settling.rows("SELECT bet, profit + returned + invalid FROM payout")
    check(len(payouts) == len({bet for bet, _ in payouts}), "no bet is settled twice")
    check(dict(payouts) == expected, "every bet of a round that ended is paid what it won")
    ((placed, bets, ended),) = settling.rows("SELECT sum(stake), count(*), sum(ended) FROM bet")
    check(ended == len(expected), f"of {bets} bets those of the rounds that ended have ended")
    cash = int(placed) - sum(expected.values())
    check(settling.rows("SELECT balance FROM cash") == [(cash,)], f"the cash is {cash}")
    return len(finals)


# --- the chain ---------------------------------------------------------------------------------------


class Evening:
    """Makes rounds of variant B: a synthetic chain, signed."""

    def __init__(self, random: Random) -> None:
        rulebook = load_rulebook("fi-ray-2013-roulette")
        named = {"id": rulebook.id, "digest": rulebook.digest}
        self._variant = convert(rulebook.book.variants["B"], Variant)
        self._layout = parse_layout(
            (ROOT / "config" / "layouts" / f"{self._variant.layout}.toml").read_bytes()
        )
        self._random = random
        self._setting = {"game": "roulette", "variant": "B", "rulebook": named, "zero_rule": "lose"}
        self.chain = ChainMaker().begin()

    def play(self, first: int, last: int) -> None:
        """Rounds `first` to `last`; one in fifty is void."""
        for number in range(first, last + 1):
            self.chain.add(Kind.ROUND, number)
            self.chain.add(Kind.BETS_CLOSED, number)
            body: dict[str, Any] = {"setting": self._setting, "evidence": {"game_ref": f"wheel/s/{number}"}}
            if self._random.random() < 1 / 50:
                self.chain.add(Kind.VOID, number, body | {"stake_policy": "player_choice"})
                continue
            pocket = (self._random.choice(self._layout.clockwise),)
            body["outcome"] = ROULETTE.outcome(Drawn(pocket, self._variant, self._layout, ()))
            body["odds"] = {"table": 2 if self._random.random() < 1 / 30 else 1}
            body["stakes"] = {"minimum": 100, "maximum": 1000, "currency": "EUR"}
            self.chain.add(Kind.RESULT, number, body)


class Publisher:
    """Publishes at least once: what a broker's death leaves open is sent again."""

    def __init__(self, broker: Mosquitto) -> None:
        self._broker = broker

    async def publish(self, envelopes: Sequence[bytes]) -> None:
        """Send in order, until the broker has acknowledged them all."""
        sent = 0
        while sent < len(envelopes):
            try:
                async with aiomqtt.Client(self._broker.host, self._broker.port, timeout=5) as client:
                    for envelope in envelopes[sent:]:
                        await client.publish(f"{PREFIX}/record/any", envelope, qos=1)
                        sent += 1
            except aiomqtt.MqttError:
                await asyncio.sleep(0.05)


# --- the run -----------------------------------------------------------------------------------------


async def soak(arguments: argparse.Namespace) -> None:
    """Play all rounds and kill; then judge. Raises `SoakError`, AssertionError."""
    random = Random(arguments.seed)
    began_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="dollyd-soak-") as name,
        Mosquitto(BROKER, persistence=True) as broker,
    ):
        directory = Path(name)
        keys, file = directory / "keys.json", directory / "journal.db"
        keys.write_text(json.dumps({"keys": [signer().jwk]}))
        evening, journal, publisher = Evening(random), Journal.open(file), Publisher(broker)
        journal.append(evening.chain.entries)
        kills: Counter[str] = Counter()
        with service(broker, keys, directory, file) as settling:
            await settling.settling()
            settling.place(evening.chain.chain, range(1, arguments.rounds + 1))
            await publisher.publish(evening.chain.envelopes)
            kill_rounds = Counter(random.randrange(arguments.rounds) for _ in range(arguments.kills))
            for first in range(1, arguments.rounds + 1, ROUNDS_A_BATCH):
                last = min(first + ROUNDS_A_BATCH - 1, arguments.rounds)
                done = len(evening.chain.entries)
                evening.play(first, last)
                journal.append(evening.chain.entries[done:])
                struck = sum(kill_rounds[number] for number in range(first, last + 1))
                again = random.randrange(SENT_AGAIN) if struck and random.random() < 0.5 else 0
                kills["publisher begun again"] += bool(again)
                sending = asyncio.create_task(
                    publisher.publish(evening.chain.envelopes[max(done - again, 0) :])
                )
                if struck:
                    await asyncio.sleep(random.uniform(0, 0.1))
                    await strike(broker, settling, random, kills)
                await sending
                check(settling.code is None, f"the service lives: {settling.said[-500:]}")
            sent_s = time.monotonic() - began_s
            try:
                await until(lambda: settling.watermark() == evening.chain.seq, SETTLE_S)
            except AssertionError:
                raise SoakError(
                    f"settled {settling.watermark()} of {evening.chain.seq}: {settling.said[-500:]}"
                ) from None
            settling.kill()
            judge(settling, [told(envelope) for envelope in evening.chain.envelopes])
        journal.close()
    figures = ", ".join(f"{what} {count} times" for what, count in sorted(kills.items()))
    print(f"seed {arguments.seed}: {time.monotonic() - began_s:.0f} s ({sent_s:.0f} s to send), {figures}")
    print(f"  {arguments.rounds} rounds, {arguments.rounds * len(PLACED)} bets, each settled once")


async def strike(broker: Mosquitto, settling: Service, random: Random, kills: Counter[str]) -> None:
    """Kill the service, the broker, or both."""
    who = random.choice((("broker",), ("service",), ("broker", "service")))
    kills.update(f"{name} killed" for name in who)
    if "service" in who:
        settling.kill()
    if "broker" in who:
        broker.kill()
        await asyncio.to_thread(broker.start)
    if "service" in who:
        settling.start()


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Kill service and broker; each bet is settled once.")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    for name in ("mqtt", "asyncio"):  # the publisher's broken lines are what we make
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        asyncio.run(soak(parser.parse_args()))
    except (SoakError, AssertionError) as error:
        print(f"NOT GOOD: {error}")
        return 1
    print("good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
