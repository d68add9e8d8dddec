"""Settles the bets of a roulette table, written from docs/wire-format.md and docs/settlement.md alone.

Usage: python stranger.py HOST PORT SITE TABLE KEYS RULEBOOK BETS (pip install paho-mqtt cryptography).
BETS: {"7": [{"id": "b1", "kind": "split", "selection": ["8", "11"], "stake": 500}]}, by round. It prints
what it pays, and has no memory: a till needs a watermark that is stored with the payouts; see
examples/settlement.
"""

import json
import sys
import tomllib
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from paho.mqtt.client import CallbackAPIVersion, Client

HOST, PORT, SITE, TABLE, *FILES = sys.argv[1:]
JWKS, RULEBOOK, BETS = (Path(name).read_bytes() for name in FILES)
last = {}


def decode(text):
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verified(envelope):
    parts = json.loads(envelope)
    header = json.loads(decode(parts["protected"]))
    key = next(one for one in json.loads(JWKS)["keys"] if one["kid"] == header["kid"])
    signed = f"{parts['protected']}.{parts['payload']}".encode()
    Ed25519PublicKey.from_public_bytes(decode(key["x"])).verify(decode(parts["signature"]), signed)
    return (
        json.loads(decode(parts["payload"])) if header["typ"] == "dolly-record/1" else sys.exit("no record")
    )


def pay(bet, body):
    stake, kind = bet["stake"], bet["kind"]
    if "outcome" not in body:  # void
        return {"returned": stake, "profit": 0, "invalid": 0}
    played, rules = min(stake, body["stakes"]["maximum"]), tomllib.loads(RULEBOOK.decode())
    table = "odds_table_2" if body.get("odds", {}).get("table") == 2 else "odds"
    odds = rules["variants"][body["setting"]["variant"]][table] | {"quarter": rules["quarter_odds"]}
    members = {"even_money": ("colour", "parity", "half")} | {
        one: (one,) for one in ("dozen", "column", "quarter")
    }
    won = any(body["outcome"][name] in bet["selection"] for name in members.get(kind, ("pocket",)))
    zero = kind == "even_money" and body["outcome"]["colour"] == "green"
    halved = zero and body["setting"].get("zero_rule") == "half"
    returned = played if won else played // 2 if halved else 0
    return {"returned": returned, "profit": won * played * odds[kind], "invalid": stake - played}


def take(client, _, message):
    record = verified(message.payload)
    kind, seq, body = record["kind"], record["seq"], record["body"]
    before = last.get(record["chain"], (seq - 1, record["prev"]))
    if seq <= before[0]:
        return  # it came again
    if (seq - 1, record["prev"]) != before or kind == "correction" or body.get("mode") == "manual":
        sys.exit(f"record {seq}: a hole before it, or decided by persons, who are to be checked first")
    last[record["chain"]] = seq, sha256(message.payload).hexdigest()
    if kind in {"result", "void"}:
        if body["setting"]["rulebook"]["digest"] != sha256(RULEBOOK).hexdigest():
            sys.exit(f"record {seq}: decided by another rulebook")
        for bet in json.loads(BETS).get(str(record["round"]), []):
            print(json.dumps({"round": record["round"], "bet": bet["id"]} | pay(bet, body)), flush=True)
    if kind == "session" and body["event"] == "closed":
        client.disconnect()


client = Client(CallbackAPIVersion.VERSION2)
client.on_connect = lambda *_: client.subscribe(f"dolly/v1/{SITE}/{TABLE}/record/+", qos=1)
client.on_subscribe = lambda *_: print("listening", flush=True)
client.on_message = take
client.connect(HOST, int(PORT))
client.loop_forever()
