"""Settlement soak: `python -m tools.settlement_soak`. Service, daemon and broker are real; all are killed.

Simulated wheels play on while service, broker and daemon are killed at random moments and started again. On
every round lie bets. Afterwards each bet of a round that ended was settled once, and the cash is what an
independent count says: from the numbers that really fell, the odds tables that were really drawn, and odds
and rules written here, not the library's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from examples.settlement.book import HELD
from examples.settlement.database import open_database
from tests.support.broker import Mosquitto, until
from tests.support.daemon import ODDS_BOX, SITE, Daemon, Installation, Told, journaled, verified
from tests.support.simulated_table import SimulatedTable
from tools.ended import end_by_signals

ROOT = Path(__file__).parents[1]
PRISON = ("prison-1", "prison-2")
"""Tables of variant D, where zero imprisons even chances; the others play variant B."""
TABLES = (*(f"r{number}" for number in range(1, 9)), *PRISON)
BROKER = "autosave_interval 5\nmax_queued_messages 0\n"
STAKE = 200
PLACED = (("straight", "17"), ("even_money", "red"), ("dozen", "13-24"), ("quarter", "1-9"))
"""Kinds and selections on each round. Quarters are not on these cloths: people settle them."""
PLACE_BET = "INSERT INTO bet (id, chain, round, game, kind, selection, stake) VALUES (?, ?, ?, ?, ?, ?, ?)"
RED = frozenset(map(str, (1, 3, 5, 7, 9, 12, 14, 16, 18, 19, 21, 23, 25, 27, 30, 32, 34, 36)))
SECOND_DOZEN = frozenset(map(str, range(13, 25)))
SPARE = 50
"""Bets lie on so many rounds more than twice those that a table plays when all are equally fast."""
RUN_S = 4 * 3600.0
SETTLE_S = 120.0


class SoakError(Exception):
    """A promise was broken; the text says which."""


def check(condition: bool, promise: str) -> None:
    """Raise `SoakError` naming the broken promise."""
    if not condition:
        raise SoakError(promise)


# --- the service ---------------------------------------------------------------------------------


class Service:
    """The service as a child process that can be killed and started again, and its data base.

    `data`: its address, else a file in `directory`. `options`: where it listens and whom it trusts, in
    place of the broker's open port and the JWK set.
    """

    def __init__(
        self,
        broker: Mosquitto,
        jwks: Path,
        directory: Path,
        data: str = "",
        options: Sequence[str] = (),
    ) -> None:
        self.data = data or str(directory / "settlement.db")
        self.log = directory / "settlement.log"
        self._command = [sys.executable, "-m", "examples.settlement", "--site", SITE, "--data", self.data]
        self._command += options or ["--broker", broker.address, "--keys", str(jwks)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT
            )

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
        """Wait until its data base is there."""
        await until(lambda: "settling" in self.said, 20)

    @property
    def said(self) -> str:
        """All that it has printed, over all its lives."""
        return self.log.read_text() if self.log.exists() else ""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read from its data base."""
        with closing(open_database(self.data)) as database:
            return database.query(query)

    def watermarks(self) -> dict[str, int]:
        """How far it has settled each chain."""
        return dict(self.rows("SELECT chain, seq FROM dollyd_watermark"))

    def place(self, table: str, chain: str, rounds: range) -> None:
        """What the till does."""
        with closing(open_database(self.data)) as database, database.transaction():
            for number in rounds:
                for kind, name in PLACED:
                    bet = (f"{table}-{number}-{kind}", chain, number, "roulette", kind, json.dumps([name]))
                    database.query(PLACE_BET, *bet, STAKE)


@contextmanager
def service(broker: Mosquitto, jwks: Path, directory: Path, data: str = "") -> Iterator[Service]:
    """The service, running; it is killed at the end."""
    child = Service(broker, jwks, directory, data)
    child.start()
    try:
        yield child
    finally:
        child.kill()


# --- the independent count -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Came:
    """What really came in a round; a void round has no `pocket`."""

    pocket: str = ""
    odds_table: int = 1


def truth(table: SimulatedTable, records: Sequence[Told]) -> dict[int, Came]:
    """What came in each round that has ended: whether it counts is the record's word, the rest is not."""
    games = defaultdict(list)
    for game in table.wheel.played:
        games[game.counter].append(game)
    drawn = {draw.nonce: draw.table for draw in table.box.drawn}
    came: dict[int, Came] = {}
    begun: dict[int, Told] = {}
    for record in records:
        if record.kind == "round":
            begun[record.round] = record
        if record.kind == "void":
            came[record.round] = Came()
        if record.kind == "result":
            round_record = begun[record.round]
            counter = int(round_record.body["game_ref"].rsplit("/", 1)[1].split("#", 1)[0])
            before_ns = round_record.time["monotonic_ns"]
            # Counters come again after 256 games: the latest that had begun is meant.
            (*_, game) = (game for game in games[counter] if game.start_ns <= before_ns)
            odds_table = drawn[record.body["odds"]["nonce"]] if "odds" in record.body else 1
            came[record.round] = Came(str(game.pocket).strip(), odds_table)
    return came


def paid(kind: str, came: Came) -> int:
    """What a bet is paid by its own round, where its end does not wait."""
    if not came.pocket:
        return STAKE
    match kind:
        case "straight":
            return STAKE * (31 if came.odds_table == 1 else 61) * (came.pocket == "17")
        case "dozen":
            return STAKE * 3 * (came.pocket in SECOND_DOZEN)
        case "even_money":
            return STAKE * 2 * (came.pocket in RED)
    return 0


def paid_by_prison(kind: str, rounds: Sequence[Came]) -> int | None:
    """The same under variant D, by the round of the bet and those after it; None while it is imprisoned."""
    first, *later = rounds
    if kind == "straight":
        return paid(kind, first) + STAKE * 5 * (first.pocket == "17")  # 35 to 1 in place of 30
    if kind != "even_money" or first.pocket != "0":
        return paid(kind, first)
    need, zeros = 1, 1
    for came in later:
        if came.pocket in RED:
            need, zeros = need - 1, 0
            if need == 0:
                return STAKE
        elif came.pocket == "0":
            need, zeros = 2, zeros + 1
            if zeros == 3:
                return 0
        elif came.pocket:
            return 0
    return None


def count(table: str, came: Mapping[int, Came]) -> dict[str, int]:
    """What each bet that has ended was to be paid."""
    expected = {}
    for number in came:
        for kind, _ in PLACED:
            rounds = [came[later] for later in range(number, max(came) + 1)] if table in PRISON else []
            money = paid_by_prison(kind, rounds) if table in PRISON else paid(kind, came[number])
            if money is not None:
                expected[f"{table}-{number}-{kind}"] = money
    return expected


def judge(settling: Service, expected: Mapping[str, int]) -> int:
    """Every bet that had to end was settled once, and the cash is right; gives the cash.

    Raises `SoakError`.
    """
    bookings = settling.rows("SELECT bet, round, verdict, profit + returned + invalid FROM booking")
    places = Counter((bet, number) for bet, number, _, _ in bookings)
    check(max(places.values(), default=0) <= 1, "no bet is settled twice in a round")
    ends = Counter(bet for bet, _, verdict, _ in bookings if verdict != "stays")
    check(max(ends.values(), default=0) <= 1, "no bet ends twice")
    check(ends.keys() == expected.keys(), f"{len(expected)} bets had to end, {len(ends)} did")
    sums: Counter[str] = Counter()
    for bet, _, _, money in bookings:
        sums[bet] += money
    wrong = {bet: (sums[bet], money) for bet, money in expected.items() if sums[bet] != money}
    check(not wrong, f"every bet is paid what it won, but of (paid, won) differ {wrong}")
    held = [bet for bet, _, verdict, _ in bookings if verdict == HELD and not bet.endswith("quarter")]
    check(not held, f"only what the cloth lacks is held, but {held[:9]} are")
    ((placed,),) = settling.rows("SELECT sum(stake) FROM bet WHERE carried = 0")
    cash = int(placed) - sum(expected.values())
    check(settling.rows("SELECT balance FROM cash") == [(cash,)], f"the cash is {cash}")
    return cash


# --- the run -------------------------------------------------------------------------------------


class Soak:
    """Everything that runs, and what is done to it."""

    def __init__(
        self, given: argparse.Namespace, at: Installation, broker: Mosquitto, settling: Service
    ) -> None:
        self.given = given
        self.random = Random(given.seed)
        self.at, self.broker, self.service = at, broker, settling
        self.daemon = Daemon(at)
        self.tables = {name: SimulatedTable(at.directory, name, seed=given.seed) for name in TABLES}
        self.kills: Counter[str] = Counter()

    def settled(self) -> int:
        """Rounds that the service has settled."""
        ((rounds,),) = self.service.rows("SELECT count(*) FROM final")
        return int(rounds)

    async def run(self) -> None:
        """Place bets, play and kill until enough rounds have ended, then let everything come to rest."""
        await self._rest(self._started)
        await self.service.settling()
        await self._rest(self._chains_begun)
        await self._rest(lambda: set(self._chains().values()) <= set(self.service.watermarks()))
        for name, chain in self._chains().items():
            self.service.place(name, chain, range(1, 2 * self.given.rounds // len(TABLES) + SPARE))
        for table in self.tables.values():
            table.play()
        for moment in sorted(self.random.randrange(self.given.rounds) for _ in range(self.given.kills)):
            await self._settled_until(moment)
            await asyncio.sleep(self.random.uniform(0, 0.5))
            await self._strike()
        await self._settled_until(self.given.rounds)
        for table in self.tables.values():
            table.end_play()
        await self._rest(self._all_decided)
        await self._rest(self._all_taken)
        check(await self.daemon.stop() == 0, "the daemon stops with exit code 0")
        await self._rest(self._all_taken)
        self.service.kill()

    def _chains_begun(self) -> bool:
        return len(self._chains()) == len(TABLES)

    def _chains(self) -> dict[str, str]:
        return {record.table: record.chain for record in journaled(self.at)}

    async def _settled_until(self, rounds: int) -> None:
        deadline_s = time.monotonic() + RUN_S
        while self.settled() < rounds:
            check(self.service.code is None, f"the service lives: {self.service.said[-500:]}")
            check(time.monotonic() < deadline_s, f"{rounds} rounds are settled in time")
            await asyncio.sleep(0.2)

    async def _strike(self) -> None:
        """Kill one or two of the three, or all."""
        struck = self.random.sample(("service", "broker", "daemon"), self.random.choice((1, 1, 1, 2, 3)))
        self.kills.update(struck)
        if "service" in struck:
            self.service.kill()
        if "daemon" in struck:
            self.daemon.kill()
        if "broker" in struck:
            self.broker.kill()
            await asyncio.sleep(self.random.uniform(0, 0.5))
            await asyncio.to_thread(self.broker.start)
        if "daemon" in struck:
            self.daemon.start()
        if "service" in struck:
            self.service.start()
        if "daemon" in struck:
            await self._rest(self._started)

    async def _rest(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + SETTLE_S
        while not condition():
            check(time.monotonic() < deadline_s, f"it is so in time: {condition.__name__}")
            await asyncio.sleep(0.2)

    def _started(self) -> bool:
        check(self.daemon.running, "the daemon lives: " + "\n".join(self.daemon.log[-9:]))
        return bool(self.daemon.logged("started"))

    def _all_taken(self) -> bool:
        return self.service.watermarks() == {record.chain: record.seq for record in journaled(self.at)}

    def _all_decided(self) -> bool:
        """Whether no table is between "no more bets" and the end of its round."""
        kinds = ("round", "bets-closed", "result", "void")
        last = {record.table: record.kind for record in journaled(self.at) if record.kind in kinds}
        return "bets-closed" not in last.values()

    def judge(self) -> str:
        """Hold everything against the truth; gives the figures. Raises `SoakError` and AssertionError."""
        journal = journaled(self.at)
        verified(self.at)
        expected: dict[str, int] = {}
        voids = ended = 0
        for name, table in self.tables.items():
            came = truth(table, [record for record in journal if record.table == name])
            ended += len(came)
            voids += sum(not one.pocket for one in came.values())
            expected |= count(name, came)
        cash = judge(self.service, expected)
        ((imprisoned,),) = self.service.rows("SELECT count(*) FROM bet WHERE carried = 1")
        struck = ", ".join(f"{name} killed {times} times" for name, times in sorted(self.kills.items()))
        return (
            f"  {struck}\n  {ended} rounds ended, {voids} of them void\n"
            f"  {len(expected)} bets each settled once, {imprisoned} times a stake stayed imprisoned\n"
            f"  cash {cash}, as counted"
        )


def install(directory: Path, broker: str) -> Installation:
    """A node with all tables."""
    at = Installation(directory, broker, TABLES)
    for name in PRISON:
        head = f'[tables.{name}]\ngame = "roulette"\nvariant = '
        at.reconfigure(f'{head}"B"', f'{head}"D"\nzero_rule = "prison"')
        at.reconfigure(ODDS_BOX.format(table=name, directory=directory, period_ms=200), "")
    return at


async def soak(given: argparse.Namespace, data: str = "") -> str:
    """One run; gives its figures. `data`: see `Service`. Raises `SoakError` and AssertionError."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="settlement-soak-")))
        broker = stack.enter_context(Mosquitto(BROKER, persistence=True))
        at = install(directory, broker.address)
        settling = stack.enter_context(service(broker, at.jwks, directory, data))
        run = Soak(given, at, broker, settling)
        for table in run.tables.values():
            await stack.enter_async_context(table)
        stack.enter_context(run.daemon)
        await run.run()
        return run.judge()


def arguments(*words: str) -> argparse.Namespace:
    """What the command line says, or `words` do."""
    parser = argparse.ArgumentParser(description="Kill service, broker and daemon; each bet is settled once.")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(words or None)


def main() -> int:
    """Read the command line and run."""
    end_by_signals()
    given, began_s = arguments(), time.monotonic()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        figures = asyncio.run(soak(given))
    except (SoakError, AssertionError) as error:
        print(f"seed {given.seed}: NOT GOOD: {error}")
        return 1
    print(f"seed {given.seed}: {time.monotonic() - began_s:.0f} s\n{figures}\ngood")
    return 0


if __name__ == "__main__":
    sys.exit(main())
