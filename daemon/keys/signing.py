"""The node's key, and the one place that signs.

One Ed25519 key a node, PKCS8 PEM, readable by its owner only. In production it comes as a systemd
credential and is seen by no other process.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dollyd.daemon.host.secret_files import read_secret, write_secret
from dollyd.wire.errors import ConfigError, SigningError
from dollyd.wire.files import sync_directory
from dollyd.wire.jws import b64url, protected_header, public_jwk
from dollyd.wire.record import TYP


class Signer:
    """Signs payloads with the node's key."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._private_key = private_key
        self.jwk = public_jwk(private_key.public_key())
        """The public key, as it is published."""
        self.kid = self.jwk["kid"]
        self._protected = {TYP: b64url(protected_header(self.kid))}

    def sign(self, payload: bytes, typ: str = TYP) -> bytes:
        """The envelope's exact bytes (RFC 7515 section 7.2.2; form in `wire.jws`)."""
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
        write_secret(path, pem)
        sync_directory(path.parent)
    except FileExistsError:
        raise SigningError(f"{path}: exists already; a key is never overwritten, name another file") from None
    except OSError as error:
        raise SigningError(f"{path}: cannot be written: {error.strerror}") from error
    return Signer(private_key)


def load_signer(path: Path, *, config_file: str, key: str) -> Signer:
    """Read the node's key. `config_file` and `key` say where the path was configured.

    Raises `ConfigError` for a key that is missing, unreadable, readable by others or no Ed25519 key.
    """
    make = "make a key with `dollyd keys new`"
    pem = read_secret(path, config_file=config_file, key=key, remedy=make)
    try:
        private_key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it asks for a password
        problem = f"{path} is no private key in PEM without a password"
        raise ConfigError(config_file, key, problem, make) from error
    if not isinstance(private_key, Ed25519PrivateKey):
        raise ConfigError(config_file, key, f"{path} is no Ed25519 key", make)
    return Signer(private_key)
