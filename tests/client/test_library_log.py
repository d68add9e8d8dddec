"""`dollyd.client` is a library: it writes nothing to standard output, and logs where its program wants it."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNREACHABLE = """
import asyncio, logging, sys
from dollyd.client.stream.brokers import Brokers
from dollyd.daemon.link.mqtt import Cause, LinkError
from random import Random

async def main():
    brokers = Brokers(("127.0.0.1:1",), 5.0, Random(1))
    async def use(broker):
        if brokers._told:
            raise LinkError(Cause.LEFT)
        raise LinkError(Cause.REFUSED, "nobody listens")
    await brokers.keep(use)

asyncio.run(main())
"""


def test_what_the_library_logs_goes_to_logging_and_never_to_standard_output() -> None:
    done = subprocess.run([sys.executable, "-c", UNREACHABLE], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.startswith("event=broker_lost broker=127.0.0.1:1 cause=refused")
    quiet = f"import logging; logging.getLogger('dollyd').setLevel('CRITICAL')\n{UNREACHABLE}"
    done = subprocess.run([sys.executable, "-c", quiet], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_nobody_takes_a_logger_that_prints() -> None:
    taken = re.compile(r"structlog\.get_logger|print_logger|PrintLogger")
    sources = [path for folder in ("client", "daemon", "drivers") for path in (ROOT / folder).rglob("*.py")]
    found = [path.name for path in sources if taken.search(path.read_text("utf-8"))]
    assert found == ["logger.py"]
    assert logging.getLogger("dollyd").handlers == []
