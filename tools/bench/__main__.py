"""Measure everything and print one table."""

from __future__ import annotations

import argparse
import logging
import sys
import time

import structlog
from tools.bench import latency, outage, settlement, stages, startup, throughput
from tools.bench.report import show

GAMES = 150
STAGE_GAMES = 100
ROUNDS = 600
BETS = 200_000
RECORDS, RECORDS_FULL = 100_000, 1_000_000
OUTAGE_H, OUTAGE_FULL_H = 2.0, 24.0


def main() -> int:
    """Read the command line and measure; missed targets are told, and no failure."""
    parser = argparse.ArgumentParser(
        prog="bench", description="Figures of one run, held against the targets."
    )
    parser.add_argument(
        "--full", action="store_true", help="a journal of a million records, an outage of 24 h"
    )
    full: bool = parser.parse_args().full
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    began_s = time.monotonic()
    figures = latency.measure(GAMES)
    figures += stages.measure(STAGE_GAMES)
    figures += throughput.measure(ROUNDS)
    figures += settlement.measure(BETS)
    figures += outage.measure(OUTAGE_FULL_H if full else OUTAGE_H)
    figures += startup.measure(RECORDS_FULL if full else RECORDS)
    show(figures)
    print(f"took {time.monotonic() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
