"""The reference consumer, a process of its own: `python -m tools.soak.reference`.

Every record that the stream gives and the stream's watermark are one transaction of a SQLite data base, as in
a settlement system. It may be killed at any moment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
from pathlib import Path
from random import Random

from tests.support.daemon import SITE

from dollyd.client import ChainError, GapError, Stream
from dollyd.client.stream.watermark import SqliteWatermarks
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.jws import Keys, keys_of_jwks

NAME = "reference"
CONTRADICTED = 3
"""Exit code where two records contradict each other."""
# It is killed and never cut from power: NORMAL keeps what was committed, and spares the disk of the house.
SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS heard (n INTEGER PRIMARY KEY, table_name TEXT NOT NULL, chain TEXT NOT NULL,
    seq INTEGER NOT NULL, kind TEXT NOT NULL, digest TEXT NOT NULL, mono_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS life (id INTEGER PRIMARY KEY, links INTEGER NOT NULL, repeats INTEGER NOT NULL,
    requests INTEGER NOT NULL, gaps INTEGER NOT NULL);
"""
# No key over (chain, seq): a record that came twice must be seen, not refused.
HEARD = "INSERT INTO heard (table_name, chain, seq, kind, digest, mono_ns) VALUES (?, ?, ?, ?, ?, ?)"
LIFE = "UPDATE life SET links = ?, repeats = ?, requests = ?, gaps = ? WHERE id = ?"


async def read(brokers: tuple[str, ...], name: str, data: Path, keys: Keys, *, accept_chains: bool) -> int:
    """Read until killed; gives the exit code where the stream cannot go on.

    `accept_chains`: the people of the house have said that a chain that begins anew is their table's.
    """
    database = sqlite3.connect(data)
    database.executescript(SCHEMA)
    with database:
        life = database.execute("INSERT INTO life (links, repeats, requests, gaps) VALUES (0, 0, 0, 0)")
    mqtt = MqttSettings(brokers, name, keepalive_s=4)
    store = SqliteWatermarks(database)
    async with Stream(mqtt, SITE, name, keys, store, rng=Random(life.lastrowid)) as stream:
        while True:
            try:
                delivered = await anext(stream)
            except GapError as gap:
                print(gap, flush=True)  # the stream asks again
                continue
            except ChainError as error:
                print(error, flush=True)
                if not accept_chains or not await stream.accept_chain(error):
                    return CONTRADICTED
                continue
            record, stats = delivered.record, stream.stats
            with database:
                digest = delivered.watermark.digest
                told = (record.table, record.chain, record.seq, record.kind, digest)
                database.execute(HEARD, (*told, record.time.monotonic_ns))
                repeats = stats.duplicates + stats.before
                counts = (stats.links, repeats, stats.requests, stats.gaps, life.lastrowid)
                database.execute(LIFE, counts)
                await stream.done(delivered)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Keep every record of the site once, in order.")
    parser.add_argument("--broker", required=True, nargs="+")
    parser.add_argument("--name", default=NAME)
    parser.add_argument("--accept-chains", action="store_true")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keys", type=Path, required=True)
    arguments = parser.parse_args()
    keys = keys_of_jwks(json.loads(arguments.keys.read_bytes())["keys"])
    brokers = tuple(arguments.broker)
    return asyncio.run(
        read(brokers, arguments.name, arguments.data, keys, accept_chains=arguments.accept_chains)
    )


if __name__ == "__main__":
    sys.exit(main())
