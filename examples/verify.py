"""Check signatures and chain of records with joserfc (`pip install joserfc`); nothing of dollyd is used.

Usage: python verify.py KEYS RECORDS
KEYS is what `dollyd keys show` prints, RECORDS has one envelope a line, in the order of publication.
"""

import json
import sys
import warnings
from hashlib import sha256
from pathlib import Path

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet


def verify(keys: KeySet, lines: list[bytes]) -> int:
    """Give the number of chains. Raises `ValueError` at the first record that is wrong."""
    if not lines:
        raise ValueError("no records")
    heads: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines, 1):
        try:
            envelope = jws.deserialize_json(json.loads(line), keys, algorithms=["EdDSA"])
        except (JoseError, ValueError) as error:
            raise ValueError(f"record {number}: {error}") from error
        if envelope.headers().get("typ") != "dolly-record/1":
            raise ValueError(f"record {number}: not a record of a known version")
        record = json.loads(envelope.payload or b"")
        seq, prev = heads.get(record["chain"], (record["seq"] - 1, record["prev"]))
        if (record["seq"], record["prev"]) != (seq + 1, prev):
            raise ValueError(f"record {number}: does not follow record {seq} of its chain")
        heads[record["chain"]] = (record["seq"], sha256(line).hexdigest())
        if record["kind"] == "result":
            print(record["table"], record["round"], json.dumps(record["body"]["outcome"]))
    return len(heads)


def main() -> None:
    """Print every result, then the verdict; exit 1 where something is wrong."""
    # RFC 9864 has renamed "EdDSA" with this curve to "Ed25519": the same signatures under another name.
    warnings.simplefilter("ignore", SecurityWarning)
    keys = KeySet.import_key_set(json.loads(Path(sys.argv[1]).read_bytes()))
    lines = Path(sys.argv[2]).read_bytes().splitlines()
    try:
        chains = verify(keys, lines)
    except ValueError as error:
        sys.exit(f"WRONG: {error}")
    print(f"good: {len(lines)} records in {chains} chains")


if __name__ == "__main__":
    main()
