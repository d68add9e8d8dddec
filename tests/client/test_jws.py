"""One record has one form: everything else is refused, also where its signature is right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chains import envelope_of, header, keys, signer

from dollyd.wire.jws import (
    ENVELOPE_MAX_BYTES,
    EnvelopeError,
    b64url,
    key_of_jwk,
    keys_of_jwks,
    parse_envelope,
    verify_envelope,
)

GOOD = signer().sign(b'{"win":17}')
PAYLOAD = b64url(b'{"win":17}')


def _reason(data: bytes) -> str:
    try:
        verify_envelope(parse_envelope(data), keys(signer()))
    except EnvelopeError as error:
        return error.reason
    return ""


def test_a_good_envelope_is_taken() -> None:
    assert _reason(GOOD) == ""
    assert _reason(envelope_of(header(), b'{"win":17}')) == ""


ENVELOPES = {
    "nothing": (b"", "json"),
    "no JSON": (b"hello", "json"),
    "an array": (b"[]", "json"),
    "trailing byte": (GOOD + b"}", "json"),
    "trailing line end": (GOOD + b"\n", "json"),
    "trailing NUL": (GOOD + b"\0", "json"),
    "leading space": (b" " + GOOD, "json"),
    "spaces inside": (GOOD.replace(b'":"', b'": "'), "envelope-form"),
    "other order": (b'{"protected":"e30","payload":"e30","signature":"AA"}', "envelope-form"),
    "duplicate member": (GOOD[:-1] + b',"payload":"e30"}', "duplicate-key"),
    "duplicate member, escaped": (GOOD[:-1] + b',"p\\u0061yload":"e30"}', "duplicate-key"),
    "unknown member": (GOOD[:-1] + b',"x":"y"}', "envelope-members"),
    "unprotected header": (GOOD[:-1] + b',"header":{"alg":"none"}}', "envelope-members"),
    "general form": (b'{"payload":"e30","signatures":[]}', "envelope-members"),
    "missing signature": (GOOD[: GOOD.index(b',"signature"')] + b"}", "envelope-members"),
    "null": (b'{"payload":null,"protected":"e30","signature":"AA"}', "json"),
    "padding": (GOOD.replace(PAYLOAD, PAYLOAD + b"=="), "base64url"),
    "standard alphabet": (GOOD.replace(PAYLOAD, b"ab+/"), "envelope-form"),
    "unused bits": (GOOD.replace(PAYLOAD, PAYLOAD[:-1] + b"R"), "base64url"),
    "one character of base64": (GOOD.replace(PAYLOAD, PAYLOAD + b"AAA"), "base64url"),
    "short signature": (GOOD[: GOOD.rindex(b':"') + 2] + b64url(bytes(63)) + b'"}', "signature-length"),
    "empty signature": (GOOD[: GOOD.rindex(b':"') + 2] + b'"}', "envelope-form"),
    "huge": (b'{"payload":"' + b"A" * ENVELOPE_MAX_BYTES + b'"}', "too-long"),
}
HEADERS = {
    "alg none": (header(alg="none"), "header-alg"),
    "alg None": (header(alg="None"), "header-alg"),
    "alg HS256": (header(alg="HS256"), "header-alg"),
    "alg Ed448": (header(alg="Ed448"), "header-alg"),
    "alg missing": (header(alg=None), "header-members"),
    "alg no text": (header(alg=1), "header-alg"),
    "typ JWT": (header(typ="JWT"), "header-typ"),
    "typ of version 2": (header(typ="dolly-record/2"), "header-typ"),
    "typ missing": (header(typ=None), "header-members"),
    "kid missing": (header(kid=None), "header-members"),
    "kid no thumbprint": (header(kid="../../key"), "header-kid"),
    "kid of nobody": (header(kid=signer(9).kid), "unknown-key"),
    "critical": (header(crit=["b64"], b64=False), "header-critical"),
    "jwk inside": (header(jwk={"kty": "OKP"}), "header-members"),
    "jku": (header(jku="https://example.org"), "header-members"),
    "b64": (header(b64=False), "header-members"),
    "duplicate alg": (header()[:-1] + b',"alg":"none"}', "duplicate-key"),
    "other order": (b'{"typ":"dolly-record/1",' + header(typ=None)[1:], "header-form"),
    "spaces": (header().replace(b":", b": "), "header-form"),
    "escapes": (header().replace(b'"alg"', b'"\\u0061lg"'), "header-form"),
    "no object": (b'"EdDSA"', "json"),
    "null": (header()[:-1] + b',"x":null}', "json"),
}
PAYLOADS = {
    "duplicate key (faults B53)": (b'{"win":17,"win":3}', "duplicate-key"),
    "same pair twice": (b'{"win":17,"win":17}', "duplicate-key"),
    "duplicate key, deep": (b'{"a":[{"b":{"c":1,"c":2}}]}', "duplicate-key"),
    "duplicate key, escaped": (b'{"win":17,"w\\u0069n":3}', "duplicate-key"),
    "duplicate key beside other text": ('{"n":"é","win":17,"win":3}'.encode(), "duplicate-key"),
    "NaN": (b'{"win":NaN}', "json"),
    "Infinity": (b'{"win":Infinity}', "json"),
    "float": (b'{"win":17.5}', "json"),
    "whole float": (b'{"win":17.0}', "json"),
    "exponent": (b'{"win":1e3}', "json"),
    "deep float": (b'{"a":[[{"b":[0.1]}]]}', "json"),
    "null": (b'{"win":null}', "json"),
    "deep null": (b'{"a":[null]}', "json"),
    "trailing byte": (b'{"win":17}x', "json"),
    "trailing space": (b'{"win":17} ', "json"),
    "second object": (b'{"win":17}{"win":3}', "json"),
    "byte order mark": (b'\xef\xbb\xbf{"win":17}', "json"),
    "bad UTF-8": (b'{"win":"\xff"}', "json"),
    "lone surrogate": (b'{"win":"\\ud800"}', "json"),
    "no object": (b"17", "json"),
    "key not ASCII": ('{"gewähr":1}'.encode(), "key-not-ascii"),
    "key not ASCII, escaped": (b'{"gew\\u00e4hr":1}', "key-not-ascii"),
    "too deep": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "json"),
    "endless number": (b'{"a":' + b"9" * 5000 + b"}", "json"),
    "leading zero": (b'{"win":007}', "json"),
    "comment": (b'{"win":17/*3*/}', "json"),
}


@pytest.mark.parametrize(("data", "reason"), ENVELOPES.values(), ids=ENVELOPES)
def test_envelopes_refused(data: bytes, reason: str) -> None:
    assert _reason(data) == reason


@pytest.mark.parametrize(("protected", "reason"), HEADERS.values(), ids=HEADERS)
def test_b53_headers_refused(protected: bytes, reason: str) -> None:
    assert _reason(envelope_of(protected, b'{"win":17}')) == reason


@pytest.mark.parametrize(("payload", "reason"), PAYLOADS.values(), ids=PAYLOADS)
def test_b52_b53_payloads_refused(payload: bytes, reason: str) -> None:
    assert _reason(envelope_of(header(), payload)) == reason


@pytest.mark.parametrize(
    "payload", [b'{"a":{}}', b'{ "a" : [1, -2, true, "x"] }', b'{"a":"\\u0041\\/"}', b'{"a":{"b":1},"b":1}']
)
def test_other_writers_spacing_and_escapes_are_taken(payload: bytes) -> None:
    assert _reason(envelope_of(header(), payload)) == ""


def test_a_signature_of_another_key_is_refused() -> None:
    assert _reason(envelope_of(header(), b'{"win":17}', by=signer(2))) == "signature"


@given(at=st.integers(0, len(GOOD) - 1), flip=st.integers(1, 255))
def test_any_changed_byte_is_noticed(at: int, flip: int) -> None:
    changed = bytearray(GOOD)
    changed[at] ^= flip
    assert _reason(bytes(changed)) != ""


@given(payload=st.binary(max_size=40))
def test_any_payload_is_taken_or_refused(payload: bytes) -> None:
    _reason(envelope_of(header(), payload))


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "EC"},
        {"crv": "X25519"},
        {"alg": "none"},
        {"x": "AA"},
        {"x": "!"},
        {"x": 5},
        {"x": "é"},
        {"x": signer().jwk["x"] + "!"},
        {"x": signer().jwk["x"] + "="},
        {"kid": "other"},
    ],
)
def test_other_keys_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(EnvelopeError, match="jwk"):
        key_of_jwk(signer().jwk | change)


def test_keys_are_taken_as_keys_show_prints_them() -> None:
    """And the list in it, as before; what is neither says so."""
    jwk = signer().jwk
    assert keys_of_jwks({"keys": [jwk]}).keys() == keys_of_jwks([jwk]).keys() == {signer().kid}
    wrongs: list[Any] = [jwk, {"keys": None}, {"keys": ["x"]}, ["keys"], {}]
    for wrong in wrongs:
        with pytest.raises(EnvelopeError, match="jwk: no JWK set"):
            keys_of_jwks(wrong)
