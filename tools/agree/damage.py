"""What is done to a good chain: `DAMAGE`, by name. Each takes lines and a generator, and gives lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.chains import envelope_of, header, signer

from dollyd.daemon.keys.signing import Signer
from dollyd.wire.jws import b64url, parse_envelope
from dollyd.wire.record import NO_PREVIOUS

Lines: TypeAlias = list[bytes]
Damage: TypeAlias = Callable[[Lines, Random], Lines]

SIGNERS = {signer(seed).kid: signer(seed) for seed in (1, 2, 3, 4)}
_PRIVATE = {
    signer(seed).kid: Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2, 3, 4)
}
TRUSTED = (1, 3)
"""Seeds of the pinned keys; key 2 is announced in some chains, key 4 never."""

_BASE64URL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_PIECES = (
    *rb'" \ { } [ ] , : [] {} "" 0 - . +1 -0 01 1e3 1.0 NaN null true /**/ "x":1, "v":1,'.split(),
    *rb'"SEQ":1, 9223372036854775807 9223372036854775808 -9223372036854775809 "__proto__":1,'.split(),
    *rb'"\ud800" "\ud83d\ude00" "\ude00\ud83d" "\\ud800" "\ud83d\\\ude00" "\u0000" "\x41"'.split(),
    *(b" ", b"\t", b"\n", b"\x00", b"\x0c", b"\x7f", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *("é".encode(), "😀".encode(), "\u2028".encode()),
)
"""What is put into a payload: all that parsers of JSON are known to differ about."""
_VALUES = (
    *rb'9007199254740991 9007199254740992 9007199254740993 -9007199254740993 "+" "r1/x" "R1" "r1\n"'.split(),
    *rb'0 1 2 -1 7 "" "1" true [] {} "result" "void" "round" "key" "unresolved" "bets-closed"'.split(),
    *rb'"incident" "correction" "self-check" "r2" "auto" "manual"'.split(),
)
"""What members of a payload are replaced by."""
_MEMBER = re.compile(rb'("[a-z_]+":)("[^"]*"|-?\d+|true|false|\[\]|\{\})')
_SEQ = re.compile(rb'"seq":(\d+)(?=,"prev")')


# --- not signed again ----------------------------------------------------------------------------


def _flipped_bit(lines: Lines, rng: Random) -> Lines:
    return _in_bytes(
        lines, rng, lambda data, at: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    )


def _byte_deleted(lines: Lines, rng: Random) -> Lines:
    return _in_bytes(lines, rng, lambda data, at: data[:at] + data[at + 1 :])


def _byte_inserted(lines: Lines, rng: Random) -> Lines:
    byte = bytes([rng.choice(b'\n\r =AQ"{},\x00\xff')])
    return _in_bytes(lines, rng, lambda data, at: data[:at] + byte + data[at:])


def _in_bytes(lines: Lines, rng: Random, change: Callable[[bytes, int], bytes]) -> Lines:
    data = b"\n".join(lines)
    return change(data, rng.randrange(len(data))).split(b"\n")


def _line_dropped(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    return lines[:at] + lines[at + 1 :]


def _lines_swapped(lines: Lines, rng: Random) -> Lines:
    one, other, changed = rng.randrange(len(lines)), rng.randrange(len(lines)), list(lines)
    changed[one], changed[other] = changed[other], changed[one]
    return changed


def _line_repeated(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    return [*lines[:at], lines[at], *lines[at:]]


def _cut_off(lines: Lines, rng: Random) -> Lines:
    return lines[: rng.randrange(len(lines))]


def _tail_bits(lines: Lines, rng: Random) -> Lines:
    """The last character of a base64url text, whose unused bits many parsers do not look at."""
    at, part = rng.randrange(len(lines)), rng.choice([b'","p', b'","s', b'"}'])
    end = lines[at].index(part)
    other = bytes([rng.choice(_BASE64URL)])
    return [*lines[:at], lines[at][: end - 1] + other + lines[at][end:], *lines[at + 1 :]]


# --- signed again --------------------------------------------------------------------------------


def _resigned(lines: Lines, at: int, payload: bytes, protected: bytes | None = None) -> Lines:
    """Another payload in line `at`, signed as the old one was; what follows is linked and signed anew."""
    changed = list(lines)
    for index in range(at, len(lines)):
        envelope = parse_envelope(lines[index])
        by = SIGNERS[envelope.kid]
        if index > at:
            old, new = (sha256(chain[index - 1]).hexdigest().encode() for chain in (lines, changed))
            payload = envelope.payload.replace(old, new)
        changed[index] = envelope_of(protected or header(kid=by.kid), payload, by)
        protected = None
    return changed


def _signer(lines: Lines) -> Signer:
    return SIGNERS[parse_envelope(lines[0]).kid]


def _payload(lines: Lines, at: int) -> bytes:
    return parse_envelope(lines[at]).payload


def _value_replaced(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    payload = _payload(lines, at)
    member = rng.choice(list(_MEMBER.finditer(payload)))
    return _resigned(lines, at, payload[: member.start(2)] + rng.choice(_VALUES) + payload[member.end(2) :])


def _member_renamed(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    payload = _payload(lines, at)
    start = rng.choice(list(_MEMBER.finditer(payload))).start() + 1
    return _resigned(lines, at, payload[:start] + payload[start : start + 1].upper() + payload[start + 1 :])


def _member_twice(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    payload = _payload(lines, at)
    member = rng.choice(list(_MEMBER.finditer(payload)))
    again = member[0] if rng.random() < 0.5 else b'"\\u%04x' % member[0][1] + member[0][2:]
    return _resigned(lines, at, payload[: member.end()] + b"," + again + payload[member.end() :])


def _piece_in_payload(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    payload = _payload(lines, at)
    place = rng.choice([0, len(payload), *(token.start() for token in re.finditer(rb'[,:{}\[\]"]', payload))])
    return _resigned(lines, at, payload[:place] + rng.choice(_PIECES) + payload[place + rng.randrange(2) :])


def _deeper(lines: Lines, rng: Random) -> Lines:
    at, depth = rng.randrange(len(lines)), rng.randint(8, 13)
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inside = b'"x":' + opened * depth + b"1" + closed * depth + b","
    return _resigned(lines, at, b"{" + inside + _payload(lines, at)[1:])


def _unused_bits(lines: Lines, rng: Random) -> Lines:
    """Bits at the end of a base64url text that belong to no byte: the signature is right, the text is not."""
    at = rng.randrange(len(lines))
    envelope = parse_envelope(lines[at])
    protected, payload = envelope.signing_input.split(b".")
    part = rng.choice(["protected", "payload", "signature"])
    protected = _with_unused_bits(protected, rng) if part == "protected" else protected
    payload = _with_unused_bits(payload, rng) if part == "payload" else payload
    signature = b64url(_PRIVATE[envelope.kid].sign(protected + b"." + payload))
    signature = _with_unused_bits(signature, rng) if part == "signature" else signature
    parts = (payload, protected, signature)
    return [*lines[:at], b'{"payload":"%s","protected":"%s","signature":"%s"}' % parts]


def _with_unused_bits(text: bytes, rng: Random) -> bytes:
    unused = {2: 4, 3: 2}.get(len(text) % 4, 0)
    return text[:-1] + bytes([_BASE64URL[_BASE64URL.index(text[-1]) ^ rng.randrange(1 << unused)]])


def _header_game(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    kid = parse_envelope(lines[at]).kid
    good = header(kid=kid)
    protected = rng.choice(
        [
            header(kid=kid, alg=rng.choice(["none", "HS256", "ES256", "Ed25519", "EdDSA ", "eddsa", ""])),
            header(
                kid=kid,
                typ=rng.choice(
                    ["JWT", "dolly-record/2", "dolly-trust/1", "Dolly-Record/1", "dolly-record/1 "]
                ),
            ),
            header(kid=rng.choice([*SIGNERS, kid + "A", "", "x"])),
            header(kid=kid, crit=["exp"], exp=1),
            header(kid=kid, b64=True),
            header(kid=kid, jwk=signer(4).jwk),
            good.replace(b":", b": "),
            good[:-1] + b',"alg":"EdDSA"}',
            good + b" ",
            good.replace(b'"alg"', b'"\\u0061lg"'),
            good,
        ]
    )
    return _resigned(lines, at, _payload(lines, at), protected)


def _another_key(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    by = rng.choice(list(SIGNERS.values()))
    changed = _resigned(lines, at, _payload(lines, at))
    changed[at] = envelope_of(header(kid=by.kid), _payload(lines, at), by)
    return changed[: at + 1] if rng.random() < 0.5 else changed


def _dropped_and_renumbered(lines: Lines, rng: Random) -> Lines:
    """A record is taken out, and those behind it are linked as if it had never been."""
    at = rng.randrange(len(lines))
    return _relinked([_payload(lines, index) for index in range(len(lines)) if index != at], _signer(lines))


def _swapped_and_renumbered(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines) - 1) if len(lines) > 1 else 0
    payloads = [_payload(lines, index) for index in range(len(lines))]
    payloads[at : at + 2] = payloads[at : at + 2][::-1]
    return _relinked(payloads, _signer(lines))


def _put_in_and_renumbered(lines: Lines, rng: Random) -> Lines:
    """A record of the chain comes once more, with a number of its own."""
    at, payloads = rng.randrange(len(lines)), [_payload(lines, index) for index in range(len(lines))]
    payloads.insert(rng.randrange(len(lines) + 1), payloads[at])
    return _relinked(payloads, _signer(lines))


def _relinked(payloads: list[bytes], by: Signer) -> Lines:
    """A chain of these payloads, numbered from 1."""
    prev, changed = NO_PREVIOUS.encode(), []
    for seq, payload in enumerate(payloads, 1):
        linked = _SEQ.sub(b'"seq":%d' % seq, payload, count=1)
        linked = re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%s"' % prev, linked, count=1)
        changed.append(envelope_of(header(kid=by.kid), linked, by))
        prev = sha256(changed[-1]).hexdigest().encode()
    return changed


def _bits_of_payload(lines: Lines, rng: Random) -> Lines:
    at = rng.randrange(len(lines))
    payload = bytearray(_payload(lines, at))
    payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
    return _resigned(lines, at, bytes(payload))


def _signature_of_another(lines: Lines, rng: Random) -> Lines:
    at, other = rng.randrange(len(lines)), parse_envelope(rng.choice(lines))
    old = b64url(parse_envelope(lines[at]).signature)
    return [*lines[:at], lines[at].replace(old, b64url(other.signature)), *lines[at + 1 :]]


DAMAGE: dict[str, Damage] = {
    "untouched": lambda lines, _: lines,
    "bit flipped": _flipped_bit,
    "byte deleted": _byte_deleted,
    "byte inserted": _byte_inserted,
    "line dropped": _line_dropped,
    "lines swapped": _lines_swapped,
    "line repeated": _line_repeated,
    "cut off": _cut_off,
    "base64 tail": _tail_bits,
    "signature of another": _signature_of_another,
    "value replaced, signed": _value_replaced,
    "member renamed, signed": _member_renamed,
    "member twice, signed": _member_twice,
    "piece put in, signed": _piece_in_payload,
    "bit of payload, signed": _bits_of_payload,
    "nested deeper, signed": _deeper,
    "unused bits, signed": _unused_bits,
    "header game, signed": _header_game,
    "another key, signed": _another_key,
    "dropped, renumbered": _dropped_and_renumbered,
    "swapped, renumbered": _swapped_and_renumbered,
    "put in, renumbered": _put_in_and_renumbered,
}
