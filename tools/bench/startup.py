"""From `exec` to the log line `started`, with an empty journal and with a long one."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.broker import Mosquitto
from tests.support.chains import ChainMaker, decision
from tests.support.daemon import Daemon, Installation
from tools.bench import verification
from tools.bench.report import Figure, at_most

from dollyd.daemon.journal.store import Journal
from dollyd.daemon.keys.signing import load_signer
from dollyd.wire.record import Kind

START_TARGET_S = 3.0
BATCH = 6000
BODY = {"filler": "x" * 600} | decision()
"""Makes a record about as long as the mean of a real round's three."""


def measure(records: int) -> list[Figure]:
    """Start of the real daemon, its journal empty and with so many records; then these are verified."""
    with tempfile.TemporaryDirectory(prefix="dollyd-bench-") as name, Mosquitto() as broker:
        installation = Installation(Path(name), broker.address, variant="C")
        empty_s = _start_s(installation)
        for file in installation.directory.glob("journal.db*"):
            file.unlink()
        _fill(installation, records)
        full_s = _start_s(installation)
        megabytes = installation.journal.stat().st_size / 1e6
        verified = verification.measure(installation.journal)
    return [
        Figure("start, empty journal", f"{empty_s:.2f} s"),
        at_most(f"start, {records:,} records ({megabytes:,.0f} MB)", full_s, START_TARGET_S, "{:.2f} s"),
        *verified,
    ]


def _fill(installation: Installation, records: int) -> None:
    signer = load_signer(installation.signing_key, config_file="", key="")
    chain = ChainMaker(by=signer).begin()
    journal = Journal.open(installation.journal)
    written = 0
    kinds: tuple[Callable[[int], object], ...] = (
        lambda number: chain.add(Kind.ROUND, number, BODY),
        lambda number: chain.add(Kind.BETS_CLOSED, number, BODY),
        lambda number: chain.add(Kind.VOID, number, BODY),
    )
    while written < records:
        for count in range(BATCH):
            kinds[count % 3]((written + count) // 3 + 1)
        journal.append(chain.entries)
        chain.entries.clear()
        written += BATCH
    journal.close()


def _start_s(installation: Installation) -> float:
    began_s = time.monotonic()
    with Daemon(installation) as daemon:
        asyncio.run(daemon.started())
        return time.monotonic() - began_s
