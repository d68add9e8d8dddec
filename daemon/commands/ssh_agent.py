"""Ed25519 keys behind an agent's socket (draft-ietf-sshm-ssh-agent): it signs, and the key never leaves it.

An agent signs bytes as they are given. What is signed here is a JWS signing input, which nobody could take
for anything that SSH signs: that always begins with the length of a binary field.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.wire.errors import SigningError
from dollyd.wire.jws import b64url, protected_header, public_jwk, thumbprint

_FAILURE: Final = 5
_REQUEST_IDENTITIES, _IDENTITIES = b"\x0b", 12
_SIGN_REQUEST, _SIGNATURE = b"\x0d", 14
_ALGORITHM = b"ssh-ed25519"
_ANSWER_MAX_BYTES = 256 * 1024
_TIMEOUT_S = 60.0
"""An agent may ask its owner before it signs."""


class AgentKey:
    """One key of an agent; signs as `daemon.signing.Signer` does."""

    def __init__(self, agent: Path, blob: bytes) -> None:
        self._agent = agent
        self._blob = blob
        self._key = _public_key(blob)
        self.jwk = public_jwk(self._key)
        """The public key."""
        self.kid = thumbprint(self._key)

    def sign(self, payload: bytes, typ: str) -> bytes:
        """The envelope's exact bytes. Raises `SigningError`."""
        protected, payload_text = b64url(protected_header(self.kid, typ)), b64url(payload)
        signing_input = protected + b"." + payload_text
        question = _SIGN_REQUEST + _string(self._blob) + _string(signing_input) + bytes(4)
        kind, signed = _ask(self._agent, question)
        if kind == _FAILURE:
            raise SigningError(f"{self._agent}: the agent does not sign with key {self.kid}")
        if kind != _SIGNATURE:
            raise SigningError(f"{self._agent}: no signature, but an answer of kind {kind}")
        algorithm, rest = _take(_take(signed)[0])
        signature = _take(rest)[0]
        if algorithm != _ALGORITHM:
            raise SigningError(f"{self._agent}: a signature of another algorithm")
        try:
            self._key.verify(signature, signing_input)
        except InvalidSignature:
            raise SigningError(f"{self._agent}: the signature is not that of key {self.kid}") from None
        return b'{"payload":"%s","protected":"%s","signature":"%s"}' % (
            payload_text,
            protected,
            b64url(signature),
        )


def agent_keys(agent: Path) -> list[AgentKey]:
    """The Ed25519 keys that an agent has. Raises `SigningError`."""
    kind, rest = _ask(agent, _REQUEST_IDENTITIES)
    if kind != _IDENTITIES:
        raise SigningError(f"{agent}: no keys, but an answer of kind {kind}")
    count, rest = int.from_bytes(rest[:4], "big"), rest[4:]
    keys = []
    for _ in range(count):
        blob, rest = _take(rest)
        _comment, rest = _take(rest)
        if _take(blob)[0] == _ALGORITHM:
            keys.append(AgentKey(agent, blob))
    return keys


def _public_key(blob: bytes) -> Ed25519PublicKey:
    _algorithm, rest = _take(blob)
    try:
        return Ed25519PublicKey.from_public_bytes(_take(rest)[0])
    except ValueError as error:
        raise SigningError(f"the agent has no Ed25519 key where it says so: {error}") from error


def _ask(agent: Path, question: bytes) -> tuple[int, bytes]:
    """One question and its answer: kind and content."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as line:
            line.settimeout(_TIMEOUT_S)
            line.connect(str(agent))
            line.sendall(_string(question))
            length = int.from_bytes(_read(line, 4), "big")
            if not 0 < length <= _ANSWER_MAX_BYTES:
                raise SigningError(f"{agent}: an answer of {length} bytes")
            answer = _read(line, length)
    except OSError as error:
        raise SigningError(f"{agent}: no agent answers there: {error.strerror or error}") from error
    return answer[0], answer[1:]


def _read(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = line.recv(count - len(data))
        if not more:
            raise SigningError("the agent closed the line in mid-answer")
        data += more
    return data


def _string(data: bytes) -> bytes:
    """A string of RFC 4251, section 5: its length and its bytes."""
    return len(data).to_bytes(4, "big") + data


def _take(data: bytes) -> tuple[bytes, bytes]:
    """The string at the beginning, and the rest. Raises `SigningError`."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < end or len(data) < 4:
        raise SigningError("the agent's answer ends too early")
    return data[4:end], data[end:]
