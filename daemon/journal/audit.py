"""The whole journal verified in the background: every signature, chain, rule and capture, on a schedule.

A start looks at the newest records only. What changed or vanished further back is found here, by a process
of its own that gives way to all others. What was found stands beside the journal, for `doctor` and the next
start.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.journal.file import audit_path
from dollyd.wire.decoding import from_json
from dollyd.wire.files import replace_file
from dollyd.wire.stamp import NS_PER_S, iso_utc

FIRST_AFTER_S = 600
"""After a start, so that a daemon that is restarted again and again does not verify all the time."""
PROBLEMS_KEPT = 10

_ANSWER_MAX_BYTES = 1 << 20
_LOG = Logger(__name__)


class Audit(Struct, frozen=True, kw_only=True):
    """What the last verification of the whole journal found."""

    time: str
    """When it began, UTC: the records of before are verified."""
    records: int
    problems: tuple[str, ...] = ()
    """The first of them, in words; empty: the journal is sound."""


class _Problem(Struct, frozen=True):
    table: str
    chain: str
    seq: int
    why: str


class _Report(Struct, frozen=True):
    records: int
    problems: tuple[_Problem, ...]


def last_audit(journal: Path) -> Audit | None:
    """What was found last, None where nothing is known."""
    try:
        return from_json(audit_path(journal).read_bytes(), Audit)
    except (OSError, msgspec.DecodeError):
        return None


class Auditor:
    """Verifies the journal every `every_s` seconds; `report` gets what was found."""

    def __init__(self, journal: Path, clock: Clock, every_s: int, report: Callable[[Audit], None]) -> None:
        self.last = last_audit(journal)
        self._journal = journal
        self._clock = clock
        self._every_s = every_s
        self._report = report

    async def run(self) -> None:
        """Go on until cancelled."""
        wait_s = FIRST_AFTER_S
        while True:
            await self._clock.sleep_until(self._clock.stamp().mono_ns + wait_s * NS_PER_S)
            if self._every_s:
                await self.audit()
            wait_s = self._every_s or FIRST_AFTER_S

    async def audit(self) -> None:
        """Verify now. A verification that cannot be done is logged, and found nothing."""
        began = iso_utc(self._clock.stamp().utc_ns)
        try:
            report = from_json(await _verified(self._journal), _Report)
        except (OSError, msgspec.DecodeError) as error:
            _LOG.warning("journal_not_verified", why=str(error))
            return
        problems = tuple(
            f"table {one.table}, record {one.seq} of chain {one.chain}: {one.why}" if one.table else one.why
            for one in report.problems[:PROBLEMS_KEPT]
        )
        self.last = Audit(time=began, records=report.records, problems=problems)
        with suppress(OSError):  # the next one writes it
            await asyncio.to_thread(
                replace_file,
                audit_path(self._journal),
                msgspec.json.encode(self.last),
                like=self._journal,
            )
        for problem in problems:
            _LOG.error("journal_unsound", problem=problem)
        _LOG.info("journal_verified", records=report.records, problems=len(report.problems))
        self._report(self.last)


async def _verified(journal: Path) -> bytes:
    """What `dollyd verify` says of the journal, in a process that gives way. Raises `OSError`."""
    words = [sys.executable, "-m", "dollyd.daemon", "verify", str(journal), "--json", "--jobs", "1"]
    if nice := shutil.which("nice"):
        words = [nice, "-n", "19", *words]
    child = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_ANSWER_MAX_BYTES,
    )
    try:
        said, _ = await child.communicate()
        return said
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
