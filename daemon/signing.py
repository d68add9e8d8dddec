"""The node's key, and the one place that signs.

One Ed25519 key a node, PKCS8 PEM, readable by its owner only. In production it comes as a systemd
credential and is seen by no other process.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dollyd.client.jws import b64url, protected_header, public_jwk
from dollyd.daemon.core.record import TYP
from dollyd.daemon.errors import ConfigError, SigningError
from dollyd.daemon.files import cure, open_file, sync_directory

_KEY_FILE_MAX_BYTES = 4096
"""An Ed25519 key in PEM has about 120 bytes."""
_CREDENTIALS = "/run/credentials"


class Signer:
    """Signs payloads with the node's key."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._private_key = private_key
        self.jwk = public_jwk(private_key.public_key())
        """The public key, as it is published."""
        self.kid = self.jwk["kid"]
        self._protected = {TYP: b64url(protected_header(self.kid))}

    def sign(self, payload: bytes, typ: str = TYP) -> bytes:
        """The envelope's exact bytes (RFC 7515 section 7.2.2; form in `client.jws`)."""
        protected = self._protected.get(typ) or b64url(protected_header(self.kid, typ))
        payload_text = b64url(payload)
        signature = self._private_key.sign(protected + b"." + payload_text)
        return b'{"payload":"%s","protected":"%s","signature":"%s"}' % (
            payload_text,
            protected,
            b64url(signature),
        )


def new_key(path: Path) -> Signer:
    """Make a key and write it to `path`: a new file, mode 0600, on the disk when this returns.

    Raises `SigningError` where the file exists or cannot be written; nothing half made stays behind.
    """
    private_key = Ed25519PrivateKey.generate()
    pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise SigningError(f"{path}: exists already; a key is never overwritten, name another file") from None
    except OSError as error:
        raise SigningError(f"{path}: cannot be made: {error.strerror}") from error
    try:
        with os.fdopen(file, "wb") as out:
            out.write(pem)
            out.flush()
            os.fsync(out.fileno())
        sync_directory(path.parent)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SigningError(f"{path}: cannot be written: {error.strerror}") from error
    return Signer(private_key)


def load_signer(path: Path, *, config_file: str, key: str) -> Signer:
    """Read the node's key. `config_file` and `key` say where the path was configured.

    Raises `ConfigError` for a key that is missing, unreadable, readable by others or no Ed25519 key.
    """

    def refused(problem: str, remedy: str) -> ConfigError:
        return ConfigError(config_file, key, f"{path} {problem}", remedy)

    try:
        with open_file(path) if key else path.open("rb") as file:  # a command may be given a pipe
            mode = os.fstat(file.fileno()).st_mode
            pem = file.read(_KEY_FILE_MAX_BYTES)
    except FileNotFoundError:
        raise refused("does not exist", "make a key with `dollyd keys new`") from None
    except OSError as error:
        remedy = cure(error, "give the daemon's user a readable file")
        raise refused(f"cannot be read: {error.strerror}", remedy) from error
    if stat.S_IMODE(mode) & _bits_of_others(path):
        raise refused(f"can be read by others (mode {stat.S_IMODE(mode):04o})", f"run `chmod 0600 {path}`")
    try:
        private_key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it asks for a password
        raise refused(
            "is no private key in PEM without a password", "make one with `dollyd keys new`"
        ) from error
    if not isinstance(private_key, Ed25519PrivateKey):
        raise refused("is no Ed25519 key", "make one with `dollyd keys new`")
    return Signer(private_key)


def _bits_of_others(path: Path) -> int:
    # systemd grants a credential to the service's user by an ACL, whose mask shows as the group's bits;
    # the directory around it is closed to everybody else, and below /run/credentials it is systemd's.
    in_credentials = path.is_relative_to(_CREDENTIALS) or (
        str(path.parent) == os.environ.get("CREDENTIALS_DIRECTORY")
    )
    return stat.S_IRWXO if in_credentials else stat.S_IRWXG | stat.S_IRWXO
