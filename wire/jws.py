"""The envelope of all that is signed: JWS (RFC 7515, flattened JSON) with Ed25519 (RFC 8037), nothing else.

    {"payload":"<base64url>","protected":"<base64url>","signature":"<base64url>"}

ASCII, no spaces, members in this order; the protected header is exactly
`{"alg":"EdDSA","kid":"<RFC 7638 thumbprint>","typ":"<type>/<version>"}`. `typ` keeps one kind of statement
from being taken for another: `dolly-record/1` is a record. One statement has one form only: what could be
read in two ways is refused, also where its signature would be right.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.wire.record import TYP

ENVELOPE_MAX_BYTES = 1 << 20
"""Longer is no envelope. The largest record, a result with all its witnesses, has a few kilobytes."""

Keys: TypeAlias = Mapping[str, Ed25519PublicKey]
"""Public keys by `kid`."""


class EnvelopeError(ValueError):
    """The bytes are no valid envelope. `reason` is a short code, `detail` is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Envelope(msgspec.Struct, frozen=True):
    """A parsed envelope: well-formed, its signature not yet checked."""

    kid: str
    payload: bytes
    """The record's exact bytes."""
    signing_input: bytes
    signature: bytes


# --- base64url and keys --------------------------------------------------------------------------

_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/***")
"""What is base64 and not base64url becomes a byte that is neither."""
_LAST_OF_REST = {2: b"AQgw", 3: b"AEIMQUYcgkosw048"}
"""Characters whose unused bits are zero, where a text ends with 2 or 3 of a group of 4."""


def b64url(data: bytes) -> bytes:
    """Base64url without padding (RFC 7515 section 2)."""
    return b2a_base64(data, newline=False).rstrip(b"=").translate(_TO_URL)


def from_b64url(text: bytes, part: str) -> bytes:
    """The bytes of canonical base64url without padding. Raises `EnvelopeError`, which names `part`."""
    try:
        data = a2b_base64(text.translate(_FROM_URL) + b"=" * (-len(text) % 4), strict_mode=True)
    except ValueError as error:
        raise EnvelopeError("base64url", f"{part} is not base64url") from error
    if (rest := len(text) % 4) and text[-1] not in _LAST_OF_REST[rest]:
        # Unused bits that are not zero would give one signature several texts.
        raise EnvelopeError("base64url", f"{part} is not the canonical base64url of its bytes")
    return data


def public_jwk(key: Ed25519PublicKey) -> dict[str, str]:
    """The key as a JWK (RFC 8037 section 2) with its thumbprint as `kid`."""
    x = b64url(key.public_bytes_raw()).decode("ascii")
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": thumbprint(key), "alg": "EdDSA", "use": "sig"}


def thumbprint(key: Ed25519PublicKey) -> str:
    """SHA-256 over the JWK's required members (RFC 7638, RFC 8037 appendix A.3), base64url."""
    x = b64url(key.public_bytes_raw())
    return b64url(sha256(b'{"crv":"Ed25519","kty":"OKP","x":"%s"}' % x).digest()).decode("ascii")


_P = 2**255 - 19
_OF_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL = frozenset({0, 1, _P - 1, _OF_ORDER_8, _P - _OF_ORDER_8})
"""The y of the points of small order: anybody can sign for them."""


def _has_one_owner(raw: bytes) -> bool:
    """Whether 32 bytes are the one encoding of their point (RFC 8032 section 5.1.3), not of small order."""
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    return y < _P and y not in _SMALL


def key_of_jwk(jwk: Mapping[str, Any]) -> Ed25519PublicKey:
    """The public key of a JWK. `EnvelopeError` where it is no Ed25519 key or bears another key's `kid`."""
    if jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
        raise EnvelopeError("jwk", "not an Ed25519 key (kty OKP, crv Ed25519)")
    if jwk.get("alg", "EdDSA") != "EdDSA":
        raise EnvelopeError("jwk", "alg is not EdDSA")
    try:
        key = Ed25519PublicKey.from_public_bytes(from_b64url(str(jwk.get("x")).encode(), "x"))
    except ValueError as error:
        raise EnvelopeError("jwk", f"x is no Ed25519 public key: {error}") from error
    if not _has_one_owner(key.public_bytes_raw()):
        raise EnvelopeError("jwk", "x is of small order, or another encoding than the canonical one")
    if public_jwk(key)["x"] != jwk["x"]:
        raise EnvelopeError("jwk", "x is not the canonical base64url of its bytes")
    if jwk.get("kid", thumbprint(key)) != thumbprint(key):
        raise EnvelopeError("jwk", "kid is not the key's RFC 7638 thumbprint")
    return key


def keys_of_jwks(jwks: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> dict[str, Ed25519PublicKey]:
    """Public keys by `kid`, of a JWK set as `dollyd keys show` prints it, or of the keys in one.

    Raises as `key_of_jwk`, and for a mapping that is no JWK set.
    """
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else list(jwks)
    if not isinstance(keys, list) or not all(isinstance(jwk, Mapping) for jwk in keys):
        raise EnvelopeError("jwk", "no JWK set: an object with the list `keys` (RFC 7517)")
    return {thumbprint(key): key for key in map(key_of_jwk, keys)}


# --- parsing -------------------------------------------------------------------------------------

_ENVELOPE = re.compile(
    rb'\{"payload":"([A-Za-z0-9_-]+)","protected":"([A-Za-z0-9_-]+)","signature":"([A-Za-z0-9_-]+)"\}'
)
_KID = re.compile(r"[A-Za-z0-9_-]{43}")


def parse_envelope(data: bytes, typ: str = TYP) -> Envelope:
    """Take an envelope apart. Raises `EnvelopeError` unless `data` is one well-formed of `typ`."""
    envelope = open_envelope(data, typ)
    strict_object(envelope.payload, "payload")
    return envelope


def open_envelope(data: bytes, typ: str = TYP) -> Envelope:
    """As `parse_envelope`, for those who look themselves whether the payload is strict JSON."""
    if len(data) > ENVELOPE_MAX_BYTES:
        raise EnvelopeError("too-long", f"{len(data)} bytes; an envelope has at most {ENVELOPE_MAX_BYTES}")
    match = _ENVELOPE.fullmatch(data)
    if match is None:
        raise EnvelopeError(*_why_no_envelope(data))
    payload_text, protected, signature_text = match.groups()
    signature = from_b64url(signature_text, "signature")
    if len(signature) != 64:
        raise EnvelopeError("signature-length", f"{len(signature)} bytes; Ed25519 has 64")
    payload = from_b64url(payload_text, "payload")
    return Envelope(_kid(protected, typ), payload, protected + b"." + payload_text, signature)


def verify_envelope(envelope: Envelope, keys: Keys) -> None:
    """Check the signature. Raises `EnvelopeError`: `unknown-key` or `signature`."""
    key = keys.get(envelope.kid)
    if key is None:
        raise EnvelopeError("unknown-key", f"kid {envelope.kid} is none of the {len(keys)} keys given")
    try:
        key.verify(envelope.signature, envelope.signing_input)
    except InvalidSignature:
        raise EnvelopeError("signature", f"the signature is not that of key {envelope.kid}") from None


def _why_no_envelope(data: bytes) -> tuple[str, str]:
    try:
        members = strict_object(data, "envelope")
    except EnvelopeError as error:
        return error.reason, error.detail
    if set(members) != {"payload", "protected", "signature"}:
        return "envelope-members", "members are not exactly payload, protected, signature"
    if any(isinstance(text, str) and "=" in text for text in members.values()):
        return "base64url", "base64url is written without padding"
    return "envelope-form", "not in the one form that an envelope has"


@lru_cache(maxsize=64)  # a node has one header a key, and millions of records
def _kid(protected: bytes, typ: str) -> str:
    header_bytes = from_b64url(protected, "protected")
    header = strict_object(header_bytes, "protected header")
    if "crit" in header:
        raise EnvelopeError("header-critical", "critical headers are not known here")
    if set(header) != {"alg", "kid", "typ"}:
        raise EnvelopeError("header-members", "members are not exactly alg, kid, typ")
    if header["alg"] != "EdDSA":
        raise EnvelopeError("header-alg", f"alg is {header['alg']!r}; only EdDSA is taken")
    if header["typ"] != typ:
        raise EnvelopeError("header-typ", f"typ is {header['typ']!r}; only {typ} is taken")
    kid = header["kid"]
    if not isinstance(kid, str) or not _KID.fullmatch(kid):
        raise EnvelopeError("header-kid", "kid is no RFC 7638 thumbprint")
    if header_bytes != protected_header(kid, typ):
        raise EnvelopeError("header-form", "not in the one form that a protected header has")
    return kid


def protected_header(kid: str, typ: str = TYP) -> bytes:
    """The exact bytes of the protected header."""
    return b'{"alg":"EdDSA","kid":"%s","typ":"%s"}' % (kid.encode("ascii"), typ.encode("ascii"))


# --- strict JSON ---------------------------------------------------------------------------------

_DEPTH_MAX = 10
"""Nesting taken in a record; a result's evidence has 5 levels."""


_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


def _object_type() -> Any:
    """JSON objects of text, integers of 64 bits and booleans: no float, no null, `_DEPTH_MAX` levels."""
    value: Any = str | _Integer | bool
    for _ in range(_DEPTH_MAX):
        value = str | _Integer | bool | list[value] | dict[str, value]
    return dict[str, value]


_DECODER: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(_object_type())
_ENCODER = msgspec.json.Encoder()


def strict_object(data: bytes, what: str) -> dict[str, Any]:
    """JSON that reads the same for every parser: one object; no duplicate key, float, null or NaN.

    Raises `EnvelopeError` (`json`, `duplicate-key`, `key-not-ascii`); `what` names the part.
    """
    try:
        value = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EnvelopeError("json", f"{what}: {error}") from error
    # Decoding kept one of two equal keys. Encoding to the same bytes proves that there were no two.
    if not data.isascii() or _ENCODER.encode(value) != data:
        _check_keys(data, what)
    return value


def _check_keys(data: bytes, what: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise EnvelopeError("duplicate-key", f"{what}: a key is there twice")
        if not all(map(str.isascii, keys)):
            raise EnvelopeError("key-not-ascii", f"{what}: a key is not ASCII")

    if data != data.strip():
        raise EnvelopeError("json", f"{what}: white space around it")
    json.loads(data, object_pairs_hook=unique)
