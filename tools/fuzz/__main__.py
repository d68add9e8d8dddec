"""Plays damaged streams: `python -m tools.fuzz [COUNT] [--only KIND] [--seed N] [--stream INDEX]`.

COUNT streams of every kind, over all cores. A failure prints its stream and how to make it again, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import Pool
from random import Random, randrange

from tools.fuzz.judge import Outcome
from tools.fuzz.kinds import KINDS

COUNT = 100_000
_CHUNK = 200
_FAILURES_SHOWN = 5


def one(seed: int, kind: str, index: int) -> Outcome:
    """Stream `index` of a kind; the same seed makes the same stream."""
    try:
        outcome = KINDS[kind](seed, Random(f"{seed}/{kind}/{index}"))
    except Exception:  # noqa: BLE001 - whatever is raised is a finding, and the run goes on
        outcome = Outcome(failures=[traceback.format_exc()])
    outcome.counts["streams"] += 1
    if outcome.failures:
        again = f"--seed {seed} --only {kind} --stream {index}"
        outcome.failures = ["\n".join([again, *outcome.failures])]
    return outcome


def some(seed: int, chunk: tuple[str, range]) -> tuple[str, Outcome]:
    """A chunk of a run, in one process."""
    kind, indices = chunk
    total = Outcome()
    for index in indices:
        total.add(one(seed, kind, index))
    return kind, total


def run(kinds: Sequence[str], count: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """A whole run over all cores, in pieces, one kind after the other."""
    starts = range(0, count, _CHUNK)
    chunks = [(kind, range(start, min(start + _CHUNK, count))) for kind in kinds for start in starts]
    with Pool(os.cpu_count()) as pool:
        yield from pool.imap_unordered(partial(some, seed), chunks)


def report(kind: str, outcome: Outcome) -> None:
    """What became of all streams of a kind."""
    print(f"{kind}: {len(outcome.failures)} failures")
    for name, number in sorted(outcome.counts.items()):
        print(f"{number:>12,}  {name}")


def main() -> int:
    """The command; the exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Damaged wire traffic against the drivers.")
    parser.add_argument("count", nargs="?", type=int, default=COUNT, help="number of streams of each kind")
    parser.add_argument("--only", choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=randrange(2**32), help="makes a run again")
    parser.add_argument("--stream", type=int, metavar="INDEX", help="one stream of each kind of that run")
    arguments = parser.parse_args()
    kinds = [arguments.only] if arguments.only else list(KINDS)
    print(f"seed {arguments.seed}", flush=True)
    began = time.monotonic()
    totals = {kind: Outcome() for kind in kinds}
    if arguments.stream is None:
        for kind, outcome in run(kinds, arguments.count, arguments.seed):
            totals[kind].add(outcome)
    else:
        for kind in kinds:
            totals[kind].add(one(arguments.seed, kind, arguments.stream))
    for kind, outcome in totals.items():
        report(kind, outcome)
    failures = [failure for outcome in totals.values() for failure in outcome.failures]
    print(f"{len(failures)} failures in {time.monotonic() - began:.0f} s")
    for failure in failures[:_FAILURES_SHOWN]:
        print(f"\n{failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
