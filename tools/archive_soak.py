"""Archive soak: `python -m tools.archive_soak`. Two instances, real broker, real PostgreSQL, `kill -9`.

A house of three tables plays some months. Its records are published doubled, out of order and with holes;
the instances share the stream, and one after the other is killed and started again. Afterwards the data base
holds every record once, and its views say what was counted while the house played.
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
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from operator import itemgetter
from pathlib import Path
from random import Random

import structlog
from tests.support.archives import count, holds
from tests.support.broker import Mosquitto, until
from tests.support.chains import SITE, signer
from tests.support.evenings import House
from tests.support.postgres import Postgres
from tests.support.replaying import TOPICS, Node, node_at
from tools.ended import end_by_signals
from tools.truth import SoakError, check

from dollyd.client.archive.postgres import PostgresStore
from dollyd.client.archive.sqlite import SqliteStore
from dollyd.client.archive.store import Store
from dollyd.daemon.journal.store import NewEntry

BROKER = "max_queued_messages 0\n"
GROUP = "books"
DOUBLED = 0.1
LOST = 0.001
DISORDER = 200
"""Records come out of order within so many."""
PART = 2_000
"""Records published at a time."""
AHEAD_MAX = 4_000
"""So far the node may be ahead of the archive: no house is that fast."""
WHOLE_S = 600.0
PROGRAM = "import sys; from dollyd.daemon.cli.archive import application; application(sys.argv[2:])"


class Instance:
    """`dollyd archive` as a child process."""

    def __init__(self, name: str, arguments: Sequence[str], directory: Path) -> None:
        self.log = directory / f"{name}.log"
        self._command = [sys.executable, "-c", PROGRAM, "archive", "--name", name, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(5)
            self._process = None

    async def listening(self) -> None:
        """Wait until it has subscribed."""
        await until(self._is_listening, 30)

    def _is_listening(self) -> bool:
        check(self._process is None or self._process.poll() is None, f"it runs:\n{self.log.read_text()}")
        return "broker_connected" in self.log.read_text()


def disordered(entries: Sequence[NewEntry], rng: Random) -> list[NewEntry]:
    """What comes out of a bad network."""
    heard = [entry for entry in entries if rng.random() > LOST]
    numbered = [(at + rng.uniform(0, DISORDER), entry) for at, entry in enumerate(heard)]
    numbered += [
        (rng.uniform(0, len(heard)), entry) for entry in rng.sample(heard, int(len(heard) * DOUBLED))
    ]
    return [entry for _, entry in sorted(numbered, key=itemgetter(0))]


async def play(
    node: Node, house: House, instances: Sequence[Instance], store: Store, kills: int, rng: Random
) -> float:
    """Publish all, kill now and then, wait until all is archived; gives the seconds that it took."""
    entries = sorted(
        (entry for maker in house.chains.values() for entry in maker.entries), key=lambda entry: entry.seq
    )
    parts = [entries[first : first + PART] for first in range(0, len(entries), PART)]
    struck = sorted(rng.sample(range(len(parts)), min(kills, len(parts))))
    began_s = time.monotonic()
    for number, part in enumerate(parts):
        await node.publish(disordered(part, rng))
        for entry in {entry.table: entry for entry in part}.values():  # a node keeps the last ones retained
            await node.keep(TOPICS.last(entry.table), entry.envelope)
        if number in struck:
            victim = rng.choice(instances)
            victim.kill()
            victim.start()
        await until(partial(is_near, store, number * PART), WHOLE_S)
    while (whole := sum(chain.complete_to for chain in store.chains())) < len(entries):
        check(time.monotonic() - began_s < WHOLE_S, f"all is archived in time, not {whole} of {len(entries)}")
        await asyncio.sleep(0.2)
    return time.monotonic() - began_s


async def soak(house: House, address: str, directory: Path, kills: int, rng: Random) -> None:
    """One house into one data base. Raises `SoakError`."""
    jwks = directory / "keys.json"
    jwks.write_text(json.dumps({"keys": [signer().jwk]}))
    makers = {maker.chain: maker for maker in house.chains.values()}
    with Mosquitto(BROKER) as broker, ExitStack() as stack:
        arguments = ["--broker", broker.address, "--site", SITE, "--keys", str(jwks)]
        arguments += ["--database", address, "--shared", GROUP]
        instances = [Instance(name, arguments, directory) for name in ("one", "two")]
        for instance in instances:
            stack.callback(instance.kill)
            instance.start()
        for instance in instances:
            await instance.listening()
        store = _open(address)
        stack.callback(store.close)
        async with node_at(broker, makers) as node:
            seconds = await play(node, house, instances, store, kills, rng)
            replayed = len(node.asked)
        began_s = time.monotonic()
        said = holds(store, house)
        for promise, kept in said.items():
            check(kept, promise)
        records = len(house.envelopes)
        said_s = time.monotonic() - began_s
        print(
            f"{records} records in {seconds:.1f} s: {records / seconds:.0f} a second, {kills} kills,"
            f" {replayed} replay requests; {len(said)} promises kept, asked in {said_s:.1f} s"
        )


def is_near(store: Store, published: int) -> bool:
    """Whether the archive is not too far behind."""
    return published - count(store, "links") < AHEAD_MAX


def _open(address: str) -> Store:
    return PostgresStore(address) if "://" in address else SqliteStore(Path(address))


def _arguments(given: Iterable[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="archive_soak", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=20, help="of instances")
    parser.add_argument("--seed", type=int, default=None)
    return parser.parse_args(None if given is None else list(given))


def main(given: Iterable[str] | None = None) -> int:
    """Soak PostgreSQL, then SQLite; 1 where a promise was broken."""
    end_by_signals()
    arguments = _arguments(given)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    seed = Random().getrandbits(32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    house = House(Random(seed)).play(arguments.records)
    try:
        with tempfile.TemporaryDirectory(prefix="archive-soak-") as name, Postgres() as cluster:
            for kind, address in (
                ("PostgreSQL", cluster.new_database()),
                ("SQLite", str(Path(name) / "archive.db")),
            ):
                directory = Path(name) / kind
                directory.mkdir()
                print(f"{kind}, two instances: ", end="", flush=True)
                asyncio.run(soak(house, address, directory, arguments.kills, Random(seed)))
    except SoakError as error:
        print(f"NOT GOOD: {error}")
        return 1
    print("good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
