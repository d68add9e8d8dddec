"""Which retained topics of tables this node has published: a file beside the journal, a topic a line.

State and devices of a table say neither who said them nor when, so whoever took a table or a device away
takes back what was said of it, also where that was done while no daemon ran.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

from dollyd.daemon.host.logger import Logger
from dollyd.daemon.link.retained import Retained
from dollyd.wire.topics import check_name

_MAX_BYTES = 1 << 20

_LOG = Logger(__name__)


class RetainedBook:
    """Of one journal. Trouble with the file is told and stops nothing: no money hangs on it."""

    def __init__(self, journal: Path) -> None:
        self._file = journal.with_name(f"{journal.name}.retained")
        self._written: frozenset[str] | None = None
        self._over: set[str] = set()

    def begin(self, own: AbstractSet[str], retained: Retained) -> None:
        """Clear what an earlier life has said and this one does not say any more."""
        try:
            known = self._file.read_bytes()[:_MAX_BYTES].decode("ascii", "replace").split()
        except OSError:
            known = []  # the first start, or nothing that can be known
        sites = {_site(topic) for topic in own}  # of another site nothing is taken back
        self._over = {one for one in known if one not in own and _site(one) in sites}
        for topic in sorted(self._over):
            retained.put(topic, b"")
        if self._over:
            _LOG.info("retained_cleared", topics=sorted(self._over)[:20], count=len(self._over))
        self.look(own, retained, connected=False)

    def look(self, own: AbstractSet[str], retained: Retained, *, connected: bool) -> None:
        """Write down what is said now; what was cleared is forgotten when the broker has it."""
        if connected:
            self._over &= set(retained.waiting)
        wanted = frozenset(own | self._over)
        if wanted == self._written:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        try:
            new.write_text("".join(f"{topic}\n" for topic in sorted(wanted)), "ascii")
            new.replace(self._file)
        except OSError as error:
            _LOG.warning("retained_book", file=str(self._file), why=error.strerror)
        self._written = wanted


def _site(topic: str) -> str:
    """The site of a state or device topic; empty for anything else that a file may hold."""
    levels = topic.split("/")
    whole = all(map(check_name, levels)) and levels[4:5] in (["state"], ["device"])
    return levels[2] if whole else ""
