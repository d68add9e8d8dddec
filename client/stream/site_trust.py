"""The trust file of a site as it changes: a consumer pins the root, and follows what the site retains."""

from __future__ import annotations

from pathlib import Path

from dollyd.daemon.host.logger import Logger
from dollyd.wire.files import replace_file
from dollyd.wire.judgement import Claim, Judgement, Verdict
from dollyd.wire.jws import EnvelopeError
from dollyd.wire.key_source import KeySource
from dollyd.wire.trust import Trust, load_trust, newer

_LOG = Logger(__name__)


def trust_of(source: KeySource) -> Trust | None:
    """The trust file behind a source of keys, which knows the persons too; None where keys are pinned."""
    if isinstance(source, SiteTrust):
        return source.trust
    return source if isinstance(source, Trust) else None


class SiteTrust:
    """A `KeySource` that knows nothing but the root's `kid` at first, and then the newest trust file.

    `path`: where that file is kept, so that after a restart an older one is refused too, and the keys are
    known before the broker has spoken. A file there that does not lead to the root raises `EnvelopeError`;
    one that cannot be read, `OSError`. A newer one that cannot be written counts all the same, and is logged.

    `min_version`: older files are refused, also where no newer one was seen yet; one of them at `path` counts
    for nothing, and is replaced by the first that will do.
    """

    def __init__(self, root: str, site: str, path: Path | None = None, *, min_version: int = 0) -> None:
        self.refused = 0
        """Files that were offered and are not what they should be."""
        self._root = root
        self._site = site
        self._min_version = min_version
        self._told_old = 0
        """The version of which it was said that it is old."""
        self._path = path
        self._trust: Trust | None = None
        if path is not None and path.exists():
            self._begin(path.read_bytes())

    @property
    def trust(self) -> Trust | None:
        """The newest file, None before there is one."""
        return self._trust

    def judge(self, claim: Claim, /) -> Judgement:
        """As `Trust.judge`; nobody is known before there is a file."""
        return self._trust.judge(claim) if self._trust is not None else Judgement(Verdict.UNKNOWN)

    def warn_if_old(self, utc: str) -> None:
        """Log, once for each version, that at `utc` a newer file is due: somebody may hold it back."""
        trust = self._trust
        if trust is not None and trust.version != self._told_old and trust.overdue(utc):
            self._told_old = trust.version
            issued, days = trust.file.issued, trust.file.renew_days
            _LOG.warning(
                "trust_file_old", site=self._site, version=trust.version, issued=issued, renew_days=days
            )

    def offer(self, data: bytes) -> bool:
        """A file that somebody has published; tells whether it is the newest now."""
        if self._trust is not None and data == self._trust.envelope:
            return True
        try:
            self._take(data)
        except EnvelopeError as error:
            if not self.refused:  # told once, counted on
                _LOG.warning("trust_file_refused", site=self._site, why=str(error))
            self.refused += 1
            return False
        try:
            self._keep(data)
        except OSError as error:  # the keys count at once; an older file is refused until the next start
            _LOG.error("trust_file_not_kept", site=self._site, file=str(self._path), why=str(error))
        return True

    def _begin(self, data: bytes) -> None:
        """Take the file that was kept; one that is too old by now is only told of."""
        load_trust(data, self._root)
        try:
            self._take(data)
        except EnvelopeError as error:
            if error.reason != "rollback":
                raise
            _LOG.warning("trust_file_refused", site=self._site, file=str(self._path), why=str(error))

    def _take(self, data: bytes) -> None:
        trust = load_trust(data, self._root, self._min_version)
        if trust.site != self._site:
            raise EnvelopeError("site", f"of site {trust.site}, not of {self._site}")
        self._trust = newer(self._trust, trust)

    def _keep(self, data: bytes) -> None:
        if self._path is not None:
            replace_file(self._path, data)
