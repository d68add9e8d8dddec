"""Certificates for TLS: loaded anew for each connection, and watched so that none expires unnoticed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from dollyd.daemon.host.clock import Clock
from dollyd.daemon.host.logger import Logger
from dollyd.wire.errors import ConfigError
from dollyd.wire.stamp import NS_PER_S

WARN_DAYS = (30, 7, 1)
"""Days before the end at which a certificate is told of; after the end it is told of as expired."""
LOOK_EVERY_S = 3600
_S_PER_DAY = 86_400

_LOG = Logger(__name__)


class LinkContext(ssl.SSLContext):
    """TLS of one link. `refused`: how the broker refused us behind the handshake; paho keeps it to itself."""

    refused = ""


class _Socket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho would leave that to the garbage collector."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if isinstance(self.context, LinkContext):
                self.context.refused = str(error)
            raise

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_context(ca_file: str | None, cert_file: str | None, key_file: str | None) -> LinkContext:
    """Read the files now. Raises `OSError` (`ssl.SSLError` is one) for files that cannot be used."""
    context = LinkContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    else:
        context.load_default_certs()
    context.sslsocket_class = _Socket
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file)
    return context


def check_pair(file: str, ca_file: str | None, cert_file: str | None, key_file: str | None) -> None:
    """Load the files as the next link will. Raises `ConfigError`, in the name of the configuration `file`.

    A certificate is often renewed before its key, and written in two steps.
    """
    try:
        tls_context(ca_file, cert_file, key_file)
    except OSError as error:
        named = ", ".join(path for path in (ca_file, cert_file, key_file) if path)
        problem = f"{named}: cannot be used together: {error}"
        remedy = "give a certificate and the key that belongs to it, then reload again"
        raise ConfigError(file, "mqtt.cert_file", problem, remedy) from error


def is_pair(cert_file: str, key_file: str | None) -> bool:
    """Whether a certificate and a key belong together; what can be no such file is told elsewhere."""
    try:
        tls_context(None, cert_file, key_file)
    except OSError as error:
        return getattr(error, "reason", "") != "KEY_VALUES_MISMATCH"
    return True


def days_left(certificate: x509.Certificate, utc_ns: int) -> int:
    """Whole days until the certificate ends; negative once it has ended."""
    ends = certificate.not_valid_after_utc
    return int((ends - datetime.fromtimestamp(utc_ns / NS_PER_S, UTC)).total_seconds() // _S_PER_DAY)


def file_days_left(path: Path, utc_ns: int) -> int:
    """Days left of the certificate in a PEM file that ends first. Raises `OSError`, `ValueError`."""
    return min(days_left(one, utc_ns) for one in x509.load_pem_x509_certificates(path.read_bytes()))


def stage(days: int) -> int | None:
    """Which warning is due: the smallest of `WARN_DAYS` that is reached; -1: expired; None: no warning."""
    if days < 0:
        return -1
    return min((limit for limit in WARN_DAYS if days < limit), default=None)


class CertificateWatch:
    """Looks at certificate files; logs each stage of each file once.

    `days_left`: by the file's purpose, as of the last look; a file that cannot be read is missing there and
    its trouble is in `problems`.
    """

    def __init__(self, files: Mapping[str, str | None], clock: Clock) -> None:
        """`files`: path by purpose, e.g. `cert_file`; a path of None is left out."""
        self.days_left: dict[str, int] = {}
        self.problems: dict[str, str] = {}
        self._files = {purpose: Path(path) for purpose, path in files.items() if path}
        self._clock = clock
        self._told: dict[str, int | None] = {}

    async def run(self) -> None:
        """Look now and then once an hour, until cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            await self._clock.sleep_until(self._clock.stamp().mono_ns + LOOK_EVERY_S * NS_PER_S)

    def look(self) -> None:
        """Read all files, as the next connection will. May wait for a disk; never raises for a file."""
        now_ns = self._clock.stamp().utc_ns
        left: dict[str, int] = {}
        problems: dict[str, str] = {}
        for purpose, path in self._files.items():
            try:
                left[purpose] = file_days_left(path, now_ns)
            except (OSError, ValueError) as error:
                problems[purpose] = str(error)
        self._tell_problems(problems)
        self._tell_stages(left)
        self.days_left, self.problems = left, problems

    def _tell_problems(self, problems: Mapping[str, str]) -> None:
        for purpose in problems.keys() - self.problems.keys():
            path = str(self._files[purpose])
            _LOG.error("certificate_unreadable", purpose=purpose, file=path, detail=problems[purpose])

    def _tell_stages(self, left: Mapping[str, int]) -> None:
        for purpose, days in left.items():
            due = stage(days)
            if due != self._told.get(purpose) and due is not None:
                event = "certificate_expired" if due < 0 else "certificate_expires"
                log = _LOG.warning if due > 1 else _LOG.error
                log(event, purpose=purpose, file=str(self._files[purpose]), days_left=days)
            self._told[purpose] = due
