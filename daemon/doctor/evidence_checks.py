"""What can be wrong with the journal, the keys and the certificates (faults B37, B44, B48)."""

from __future__ import annotations

import os
import sqlite3
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from dollyd.daemon.doctor.case import BE_ROOT, Case, Finding, fault, warning
from dollyd.daemon.journal.audit import last_audit
from dollyd.daemon.journal.entry import utc_ns
from dollyd.daemon.journal.file import connect_read_only
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.link.certificates import WARN_DAYS, days_left, tls_context
from dollyd.daemon.table.chains import too_early
from dollyd.wire.errors import JournalError
from dollyd.wire.files import Sight, look_for
from dollyd.wire.judgement import Verdict
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.trust import Trust

_CHECK_S = 10
"""How long a look at the journal's structure may take; it grows with the journal."""
_PASSING = frozenset({"tmpfs", "ramfs", "overlay"})
_ELSEWHERE = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "glusterfs"})


def journal_disk(case: Case) -> Iterator[Finding]:
    """A journal that a power cut takes along, or whose locks and fsync are a server's word."""
    if case.settings is None:
        return
    path = str(Path(case.settings.journal.path).absolute())
    kind = _file_system(case, path)
    remedy = "name a path on a local disk"
    if kind in _PASSING:
        yield fault("journal-in-memory", f"{path} is on {kind}: a power cut takes it along", remedy)
    elif kind in _ELSEWHERE:
        yield fault("journal-on-network", f"{path} is on {kind}: nobody knows when it is durable", remedy)


def _file_system(case: Case, path: str) -> str:
    """The kind of file system that a path is on: that of the longest mount point above it."""
    best, kind = "", ""
    for line in case.host.read("/proc/self/mounts").splitlines():
        _, point, this, *_ = [*line.split(" "), "", "", ""]
        above = path == point or path.startswith(point.rstrip("/") + "/")
        if above and len(point) >= len(best):
            best, kind = point, this
    return kind


def journal_access(case: Case) -> Iterator[Finding]:
    """The service cannot write its journal."""
    if case.settings is None:
        return
    path, user = Path(case.settings.journal.path), case.user
    seen = look_for(path)
    target = path if seen is Sight.THERE else path.parent
    remedy = "give the folder to dollyd's user (StateDirectory= of the unit does), or name another"
    if seen is Sight.HIDDEN and case.is_asked_for_another:
        yield warning("journal-unseen", f"journal.path: {path} is hidden from you", BE_ROOT)
    elif seen is Sight.HIDDEN:
        yield fault("journal-access", f"journal.path: {path} is hidden from you", f"{remedy}, or {BE_ROOT}")
    elif (seen is Sight.THERE and not path.is_file()) or look_for(target) is Sight.MISSING:
        yield fault("journal-path", f"journal.path: {path} can be no file", remedy)
    elif not case.may_use(target):
        who = user.name if user is not None else "root"
        yield fault("journal-access", f"journal.path: {who} may not write {target}", remedy)


def journal_damage(case: Case) -> Iterator[Finding]:
    """B44: a file that SQLite finds damaged, and those that were put aside as such."""
    if case.settings is None:
        return
    path = Path(case.settings.journal.path)
    if look_for(path) is Sight.THERE and path.is_file():
        yield from _file_damage(path)
    folder = path.parent
    for aside in sorted(folder.glob(f"{path.name}.damaged-*")) if look_for(folder) is Sight.THERE else ():
        if not aside.name.endswith(("-wal", "-shm")):
            remedy = "`dollyd verify` it, export what is good, then put it away; suspect the disk"
            yield warning("journal-was-damaged", f"{aside} was put aside", remedy)


def _file_damage(path: Path) -> Iterator[Finding]:
    if not (os.access(path, os.R_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        yield warning("journal-unseen", f"journal.path: {path} may not be opened by you", BE_ROOT)
        return
    try:
        said = _structure(path)
    except JournalError as error:
        yield fault("journal-path", f"journal.path: {error}", "name dollyd's journal, or a new file")
        return
    if not said:
        what = f"{path} is too large to be checked within {_CHECK_S} s"
        yield warning("journal-unchecked", what, "have `dollyd verify` check it when there is time")
    elif said != "ok":
        remedy = "restart dollyd: it keeps the file and begins a new chain; `dollyd verify` the old one"
        yield fault("journal-damaged", f"{path}: {' '.join(said.split())}", remedy)


def journal_audit(case: Case) -> Iterator[Finding]:
    """What the last verification of the whole journal found, which the daemon does in the background."""
    if case.settings is None:
        return
    path = Path(case.settings.journal.path)
    found = last_audit(path)
    if found is None:
        return
    if found.problems:
        remedy = f"keep the file, `dollyd verify {path}` says all; hold it against what consumers have"
        what = f"{path}, verified at {found.time}: {found.problems[0]}"
        yield fault("journal-unsound", what, remedy)
        return
    age_ns = case.clock.stamp().utc_ns - utc_ns(found.time)
    if (every_h := case.settings.journal.verify_every_h) and age_ns > 3 * every_h * 3600 * NS_PER_S:
        what = f"{path} was verified for the last time at {found.time}"
        yield warning("journal-not-verified", what, "see in the log why (journal_not_verified)")


def _structure(path: Path) -> str:
    """What SQLite says of a file: `ok`, or what is wrong; empty where the time did not suffice.

    Raises `JournalError` for what is no journal of this version.
    """
    end_s = time.monotonic() + _CHECK_S
    try:
        with closing(connect_read_only(path)) as journal:
            journal.set_progress_handler(lambda: time.monotonic() > end_s, 10_000)
            (said,) = journal.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return "" if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT else str(error)
    return str(said)


def trust(case: Case) -> Iterator[Finding]:
    """Consumers will refuse what the node signs."""
    if case.settings is None or case.keyring is None or case.keyring.trust is None:
        return
    kid, now = case.keyring.newest.kid, case.clock.stamp()
    for verdict in {case.keyring.verdict(table, now) for table in case.settings.tables}:
        if verdict is Verdict.REVOKED:
            remedy = "make another key, and have the site trust it"
            yield fault("key-revoked", f"key {kid} is revoked", remedy)
        elif verdict is not Verdict.VALID:
            remedy = "have the site's trust file name this node's key, and install it here"
            yield fault("key-untrusted", f"key {kid} is {verdict} in the site's trust file", remedy)
    if case.keyring.trust.overdue(iso_utc(now.utc_ns)):
        what = f"the trust file of {case.keyring.trust.file.issued} should have been renewed"
        yield warning("trust-old", what, "have it signed anew with `dollyd trust renew`, and install it here")
    yield from _too_early(Path(case.settings.journal.path), case.keyring.trust)


def _too_early(path: Path, trust: Trust) -> Iterator[Finding]:
    """Records that were signed before the trust file lets their key begin."""
    if look_for(path) is not Sight.THERE or not os.access(path, os.R_OK):
        return
    try:
        with closing(Journal.open(path, read_only=True)) as journal:
            found = too_early(journal, trust)
    except JournalError:
        return  # told of elsewhere
    for early in found:
        yield fault("records-before-trust", early.what, early.remedy)


def ended(case: Case) -> bool:
    """Whether a certificate of ours makes every link fail: then no broker needs to be asked."""
    return any(one.id in {"cert-expired", "cert-not-yet"} for one in certificates(case))


def certificates(case: Case) -> Iterator[Finding]:
    """B37: files for TLS that end, have not begun, or do not belong together."""
    if case.mqtt is None:
        return
    now_ns = case.clock.stamp().utc_ns
    for name in ("ca_file", "cert_file"):
        path = getattr(case.mqtt, name)
        try:
            found = x509.load_pem_x509_certificates(Path(path).read_bytes()) if path else []
        except (OSError, ValueError) as error:
            remedy = "name a PEM file that dollyd may read"
            yield fault("cert-unreadable", f"mqtt.{name}: {path}: {error}", remedy)
            return
        for one in found:
            yield from _dates(f"mqtt.{name}", one, now_ns)
    if case.mqtt.cert_file:
        try:
            tls_context(None, case.mqtt.cert_file, case.mqtt.key_file)
        except (OSError, ssl.SSLError) as error:
            yield fault(
                "cert-key", f"mqtt.cert_file and key_file: {error}", "name the key of this certificate"
            )


def _dates(what: str, certificate: x509.Certificate, now_ns: int) -> Iterator[Finding]:
    left = days_left(certificate, now_ns)
    if certificate.not_valid_before_utc > datetime.fromtimestamp(now_ns / NS_PER_S, UTC):
        begins = certificate.not_valid_before_utc.date()
        yield fault("cert-not-yet", f"{what} begins on {begins}", "set the clock, or have it issued anew")
    elif left < 0:
        yield fault("cert-expired", f"{what} has expired", "renew it; no restart is needed")
    elif left < WARN_DAYS[0]:
        yield warning("cert-soon", f"{what} ends in {left} days", "renew it; no restart is needed")
