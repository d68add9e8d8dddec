"""A small settlement service: signed records in, payouts out, each bet once, also across kill -9.

Usage: python -m settlement --broker mqtts://HOST:PORT --ca FILE --cert FILE --key FILE --site SITE
           --trust FILE --root KID --data DATABASE [--table TABLE]
           [--accept-loss CHAIN:FIRST-LAST] [--accept-chain CHAIN]

DATABASE is a file (SQLite), or a `postgresql://` address (`pip install psycopg[binary]`).

* `Stream` gives each record verified, once and in order; what the broker lost it asks the node for.
* What a record leads to and its watermark (how far each chain is done) are one transaction. After a crash the
  stream begins behind the last watermark: nothing is settled twice, nothing is left out.
* `bet` has one row for each round that a bet takes part in, and `booking` what was paid; neither is ever
  paid by hand. `cash` is stakes less payouts.
* A correction takes back what was booked for its round, and settles it again. Both are booked. A stake that
  stays (en prison, craps) is settled again through all rounds since.
* Records that cannot be had stop their table: `STOPPED: ... records 5 to 7 are missing`. All others go on,
  and it is tried again every ten minutes. Where people find that the records are lost for good, they settle
  those rounds by hand, and start the service once with `--accept-loss`.
* So do a rulebook that is not at hand, and a chain that does not take up where the one before it of its table
  ended. Where people know that the box was replaced with its disk, they start it once with `--accept-chain`.
* A bet that cannot be (a split of 1 and 3, a choice that was not made, whatever else is wrong with it) is
  held: nothing is paid, and people settle it by its `reason`. All other bets of the round are settled.

The till inserts into `bet`, and may change a bet or delete it until "no more bets"; triggers refuse that
afterwards, and bets on a chain that is not known. They know what was read so far: while the service does not
run, or a table is stopped, the till must take no bets there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from dollyd.client import (
    ChainError,
    GapError,
    MqttSettings,
    Stream,
    keys_of_jwks,
)
from dollyd.client.settlement import SettlementError
from dollyd.client.stream.site_trust import SiteTrust
from dollyd.wire.jws import Keys
from dollyd.wire.key_source import KeySource

from .book import Book, plain
from .database import open_database


async def serve(given: argparse.Namespace) -> None:
    """Settle until the process ends. Raises what the data base raises.

    A table in trouble stops, and is tried again after `given.retry_s` seconds, from where it is done.
    """
    keys = source_of(given)
    broker = MqttSettings(
        (given.broker,), given.name, ca_file=given.ca, cert_file=given.cert, key_file=given.key
    )
    with closing(open_database(given.data)) as database:
        while True:
            async with Stream(
                broker, given.site, given.name, keys, database.watermarks, given.table
            ) as stream:
                print("settling", flush=True)
                with suppress(TimeoutError):
                    await settle(stream, Book(database), given)


async def settle(stream: Stream, book: Book, given: argparse.Namespace) -> None:
    """Settle by the records of a stream. Raises `TimeoutError` once stopped tables are to be tried again."""
    stopped: set[str] = set()
    async with asyncio.timeout(None) as patience:

        def stop(table: str, error: Exception) -> None:
            """Nothing of this table is settled until it is tried again; all others go on."""
            print(f"STOPPED: {plain(str(error))}", flush=True)
            stopped.add(table)
            if patience.when() is None:
                patience.reschedule(asyncio.get_running_loop().time() + given.retry_s)

        while True:
            try:
                delivered = await anext(stream)
            except GapError as gap:
                if not is_accepted(gap, given.accept_loss):
                    stop(gap.table, gap)
                else:
                    await stream.accept_loss(gap)
                continue
            except ChainError as error:
                if error.chain not in given.accept_chain or not await stream.accept_chain(error):
                    stop(error.table, error)
                continue
            table = delivered.record.table
            if table in stopped:
                continue
            try:
                book.take(delivered)  # durable from here on
            except (SettlementError, KeyError, TypeError, ValueError) as error:
                stop(table, SettlementError(f"table {table}, record {delivered.record.seq}: {error}"))
            else:
                await stream.done(delivered)  # tells the site how far we are


def source_of(given: argparse.Namespace) -> Keys | KeySource:
    """Whom to trust: the nodes' keys as they are, or the site's trust file as it changes."""
    if given.keys:
        return keys_of_jwks(json.loads(given.keys.read_bytes()))
    return SiteTrust(given.root, given.site, given.trust)


def loss(text: str) -> tuple[str, int, int]:
    """Chain, first and last record of what people have given up. Raises `ValueError`."""
    chain, _, numbers = text.rpartition(":")
    first, last = map(int, numbers.split("-"))
    return chain, first, last


def is_accepted(gap: GapError, losses: Iterable[tuple[str, int, int]]) -> bool:
    """Whether people have said that all records of a gap are lost."""
    given_up = [(first, last) for chain, first, last in losses if chain == gap.chain]
    return any(first <= gap.first and gap.last <= last for first, last in given_up)


def main() -> None:
    """Read the command line and settle."""
    parser = argparse.ArgumentParser(description="Settle bets by signed records.")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--site", required=True)
    parser.add_argument(
        "--table", action="append", default=[], help="one of several; all of the site if none"
    )
    trusted = parser.add_mutually_exclusive_group(required=True)
    trusted.add_argument(
        "--trust", type=Path, metavar="FILE", help="trust file, kept up to date; with --root"
    )
    trusted.add_argument("--keys", type=Path, metavar="JWKS", help="or the nodes' keys, which never change")
    parser.add_argument(
        "--root", default="", metavar="KID", help="the root that the trust file is signed under"
    )
    parser.add_argument("--ca", metavar="FILE", help="TLS: who vouches for the broker")
    parser.add_argument("--cert", metavar="FILE", help="TLS: the certificate of this service ...")
    parser.add_argument("--key", metavar="FILE", help="... and its key")
    parser.add_argument("--data", required=True, metavar="DATABASE", help="a file, or postgresql://...")
    parser.add_argument(
        "--accept-loss",
        action="append",
        default=[],
        type=loss,
        metavar="CHAIN:FIRST-LAST",
        help="records that are lost for good, and that people have settled: go on behind them",
    )
    parser.add_argument(
        "--accept-chain",
        action="append",
        default=[],
        metavar="CHAIN",
        help="a chain that does not follow its table's; people know that the box was replaced",
    )
    parser.add_argument("--name", default="settlement", help="of this consumer; one for each data base")
    parser.add_argument(
        "--retry-s", type=float, default=600, help="seconds until stopped tables are tried again"
    )
    given = parser.parse_args()
    if given.trust and not given.root:
        parser.error("--trust goes with --root")
    # The client logs, and sets up no log itself.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(serve(given))  # whoever looks after us starts us again


if __name__ == "__main__":
    main()
