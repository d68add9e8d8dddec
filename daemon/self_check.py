"""Is the installed program the one that was built? Its files against the manifest that the build made.

The manifest lies in the package, `MANIFEST.sha256`, one line a file as sha256sum(1) writes it; a checkout of
the source has none. It shows what was changed by mistake, by a bad disk or in a hurry. Who can change files
here can change the manifest too: its digest stands in the record, for comparison with that of the release.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import structlog

import dollyd
from dollyd.daemon.clock import Clock
from dollyd.daemon.core.record import SelfCheckBody
from dollyd.daemon.core.stamp import NS_PER_S

MANIFEST = "MANIFEST.sha256"
PACKAGE = Path(dollyd.__file__).parent
EVERY_S = 86_400
DIFFERS_MAX = 20
"""Files that a record names; more are counted."""
GOOD, BAD, UNSEALED = "good", "bad", "unsealed"

_LOG = structlog.get_logger(__name__)


def digests(package: Path) -> dict[str, str]:
    """SHA-256 of every file of a package, by its path in it; what Python compiles by itself is left out.

    Raises OSError where one cannot be read.
    """
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    names = {path.relative_to(package).as_posix(): path for path in files if path.name != MANIFEST}
    return {name: sha256(names[name].read_bytes()).hexdigest() for name in sorted(names)}


def manifest_of(found: Mapping[str, str]) -> bytes:
    """The manifest of a package with these digests."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())).encode()


def check_files(reason: str, package: Path = PACKAGE) -> SelfCheckBody:
    """Compare a package with its manifest. Takes some milliseconds; never raises for what is on the disk."""
    about = {"version": dollyd.__version__, "python": platform.python_version()}
    try:
        manifest = (package / MANIFEST).read_bytes()
    except FileNotFoundError:
        return SelfCheckBody(reason=reason, **about, result=UNSEALED, files=0, differing=0, differs=[])
    except OSError:
        manifest = b""
    try:
        found = digests(package)
    except OSError as error:
        found, unread = {}, [f"unreadable {error.filename}"]
    else:
        unread = []
    differs = unread + _differences(_parsed(manifest), found)
    return SelfCheckBody(
        reason=reason,
        **about,
        result=BAD if differs else GOOD,
        manifest=sha256(manifest).hexdigest(),
        files=len(found),
        differing=len(differs),
        differs=[ascii(one)[1:-1] for one in differs[:DIFFERS_MAX]],
    )


def _parsed(manifest: bytes) -> dict[str, str]:
    lines = (line.partition("  ") for line in manifest.decode("utf-8", "replace").splitlines())
    return {name: digest for digest, _, name in lines}


def _differences(built: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return [
        *(f"changed {name}" for name in sorted(built.keys() & found.keys()) if built[name] != found[name]),
        *(f"missing {name}" for name in sorted(built.keys() - found.keys())),
        *(f"added {name}" for name in sorted(found.keys() - built.keys())),
    ]


class SelfCheck:
    """Checks at the start, once a day and when asked; `report` gets each answer."""

    def __init__(
        self, clock: Clock, report: Callable[[SelfCheckBody], None], package: Path = PACKAGE
    ) -> None:
        self._clock = clock
        self._report = report
        self._package = package
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have it done soon."""
        self._asked.set()

    def at_start(self) -> None:
        """Check now."""
        self._tell(check_files("start", self._package))

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            reason = await self._next()
            self._tell(await asyncio.to_thread(check_files, reason, self._package))

    async def _next(self) -> str:
        """Wait for a reason to check."""
        due_ns = self._clock.stamp().mono_ns + EVERY_S * NS_PER_S
        waits = {
            asyncio.create_task(self._clock.sleep_until(due_ns), name="self-check-daily"),
            asyncio.create_task(self._until_asked(), name="self-check-asked"),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        asked = self._asked.is_set()
        self._asked.clear()
        return "asked" if asked else "daily"

    async def _until_asked(self) -> None:
        await self._asked.wait()

    def _tell(self, answer: SelfCheckBody) -> None:
        log = _LOG.error if answer.result == BAD else _LOG.info
        log("self_check", result=answer.result, reason=answer.reason, differing=answer.differing)
        for one in answer.differs:
            _LOG.error("file_differs", what=one)
        self._report(answer)
