"""Check signatures and chain of records with joserfc (`pip install joserfc`); nothing of dollyd is used.

Usage: python verify.py KEYS RECORDS
KEYS is what `dollyd keys show` prints, RECORDS has one envelope a line, in the order of publication. Chains
may begin in their middle. Not looked at: most of what is in a body, the rules of rounds, persons.
"""

import json
import re
import sys
import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import OKPKey

ENVELOPE = re.compile(rb'\{"payload":"([\w-]+)","protected":"([\w-]+)","signature":"([\w-]{86})"\}')
HEADER = re.compile(rb'\{"alg":"EdDSA","kid":"([\w-]{43})","typ":"dolly-record/1"\}')
NAME = "[a-z0-9-]{1,40}"
HEAD = {"site": NAME, "node": NAME, "table": NAME, "chain": "[0-9a-f]{32}", "prev": "[0-9a-f]{64}"}
KINDS = (
    *("session", "round", "bets-closed", "result", "void", "throw-rejected", "unresolved", "correction"),
    *("incident", "gap", "key", "checkpoint", "self-check", "clock"),
)
P = 2**255 - 19
OF_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022


def demand(good: object, why: str) -> None:
    """Raise `ValueError` unless it is so."""
    if not good:
        raise ValueError(why)


def bytes_of(text: str) -> bytes:
    """Canonical base64url without padding."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    demand(urlsafe_b64encode(data).decode().rstrip("=") == text, "not the canonical base64url of its bytes")
    return data


def key_of(jwk: dict[str, Any]) -> tuple[str, OKPKey]:
    """A key and its thumbprint: no point of small order, for which anybody can sign, and in its one form."""
    x = jwk.get("x", "")
    ours = jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519" and jwk.get("alg", "EdDSA") == "EdDSA"
    demand(ours and re.fullmatch(r"[A-Za-z0-9_-]{43}", x), "not an Ed25519 key")
    y = int.from_bytes(bytes_of(x), "little") % 2**255
    demand(y < P and y not in {0, 1, P - 1, OF_ORDER_8, P - OF_ORDER_8}, "not a key of one owner")
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": x})
    kid = key.thumbprint()
    demand(jwk.get("kid", kid) == kid, "a key bears the name of another")
    return kid, key


def strict_object(data: bytes) -> dict[str, Any]:
    """One object of text, integers of 64 bits, booleans, arrays and objects; no key twice, none but ASCII."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        demand(len(members) == len(pairs) and all(map(str.isascii, members)), "a key twice, or not ASCII")
        demand(None not in members.values(), "a null")
        return members

    def integer(text: str) -> int:
        demand(len(text) < 21 and -(2**63) <= int(text) < 2**63, f"{text} as a value")
        return int(text)

    def refuse(text: str) -> None:
        raise ValueError(f"{text} as a value")

    text = data.decode("utf-8")
    demand(text.startswith("{") and text.endswith("}"), "the payload is not one object and nothing else")
    found: dict[str, Any] = json.loads(
        text, object_pairs_hook=unique, parse_int=integer, parse_float=refuse, parse_constant=refuse
    )
    json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a character cannot be
    return found


def read(line: bytes) -> tuple[str, dict[str, Any]]:
    """Whose signature it claims to bear, and the record in it."""
    parts = ENVELOPE.fullmatch(line)
    demand(parts and len(line) <= 1 << 20, "not in the one form that an envelope has")
    payload, protected, _ = [bytes_of(part.decode()) for part in parts.groups()] if parts else [b"", b"", b""]
    header = HEADER.fullmatch(protected)
    demand(header, "not exactly alg EdDSA, kid, typ dolly-record/1")
    record = strict_object(payload)
    known = record.get("v") == 1 and type(record["v"]) is int and record.get("kind") in KINDS
    named = all(re.fullmatch(form, str(record.get(name))) for name, form in HEAD.items())
    numbers = [record.get("seq"), record.get("round")]
    counted = all(type(number) is int and 0 <= number < 2**53 for number in numbers)
    demand(known and named and counted, "not a record of a known version and kind")
    return header[1].decode() if header else "", record


def verify(pinned: dict[str, OKPKey], lines: list[bytes]) -> int:
    """Give the number of chains. Raises `ValueError` at the first record that is wrong."""
    demand(lines, "no records")
    heads: dict[str, tuple[int, str, str]] = {}
    turns: dict[str, tuple[str, OKPKey]] = {}
    for number, line in enumerate(lines, 1):
        try:
            kid, record = read(line)
            chain, seq, place = record["chain"], record["seq"], record["site"] + "/" + record["table"]
            turn, key = turns.get(chain) or (kid, pinned.get(kid))
            demand(key, f"key {kid} is not trusted")
            demand(turn == kid, f"it is the turn of {turn} to sign")
            jws.deserialize_json(json.loads(line), key, algorithms=["EdDSA"])
            last, prev, where = heads.get(chain) or (seq - 1, "0" * 64 if seq == 1 else record["prev"], place)
            demand((seq, record["prev"]) == (last + 1, prev), f"does not follow record {last} of its chain")
            demand(place == where and seq > 0, f"the chain belongs to {where}")
            demand(seq > 1 or record["kind"] == "key", "the chain does not begin with its key")
            turns[chain] = key_of(record["body"]["jwk"]) if record["kind"] == "key" else (kid, key)
            demand(seq > 1 or turns[chain][0] == kid, "the chain begins with a key that did not sign")
        except (JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"record {number}: {error}") from error
        heads[chain] = (seq, sha256(line).hexdigest(), place)
        if record["kind"] == "result":
            print(record["table"], record["round"], json.dumps(record["body"].get("outcome")))
    return len(heads)


def main() -> None:
    """Print every result, then the verdict; exit 1 where something is wrong."""
    # RFC 9864 has renamed "EdDSA" with this curve to "Ed25519": the same signatures under another name.
    warnings.simplefilter("ignore", SecurityWarning)
    data = Path(sys.argv[2]).read_bytes()
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    try:
        keys = dict(map(key_of, json.loads(Path(sys.argv[1]).read_bytes())["keys"]))
        chains = verify(keys, lines)
    except ValueError as error:
        sys.exit(f"WRONG: {error}")
    print(f"good: {len(lines)} records in {chains} chains")


if __name__ == "__main__":
    main()
