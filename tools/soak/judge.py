"""What must hold at the end."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec
from tools.soak.house import House, PlayedTable
from tools.soak.processes import Consumer
from tools.truth import Kept, check, check_odds, explain, kept

from dollyd.client.proof.sources import JournalFile
from dollyd.wire.jws import parse_envelope

_FINAL = ("result", "void")


@dataclass(slots=True)
class Journaled:
    """What the journal holds: numbers and digests by chain, and what the truth bears on by table."""

    chains: defaultdict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    tables: defaultdict[str, list[Kept]] = field(default_factory=lambda: defaultdict(list))
    kinds: Counter[str] = field(default_factory=Counter)


def read_journal(house: House) -> Journaled:
    """The whole journal."""
    journaled = Journaled()
    with closing(JournalFile(house.journal)) as journal:
        for envelope in journal.envelopes():
            record = msgspec.json.decode(parse_envelope(envelope).payload)
            journaled.chains[record["chain"]].append((record["seq"], sha256(envelope).hexdigest()))
            journaled.tables[record["table"]].append(kept(record))
            journaled.kinds[record["kind"]] += 1
    return journaled


def judge(
    house: House, journaled: Journaled, tables: Sequence[PlayedTable], consumer: Consumer
) -> Counter[str]:
    """What became of the games. Raises `SoakError` naming the promise that is broken."""
    check_consumer(journaled, consumer.heard())
    check(len(journaled.chains) == len(tables), "every table has gone on with the chain that it began")
    _check_ends(journaled)
    reasons: Counter[str] = Counter()
    for table in tables:
        check_odds(table, journaled.tables[table.name])
        reasons += explain(table, journaled.tables[table.name])
    _verify(house)
    return reasons


def check_consumer(journaled: Journaled, heard: Mapping[str, list[tuple[int, str]]]) -> None:
    """The consumer has every record of every chain once, in order, and the same one. Raises `SoakError`."""
    check(heard.keys() == journaled.chains.keys(), "the consumer knows every chain and no other one")
    for chain, records in journaled.chains.items():
        numbers = [seq for seq, _ in heard[chain]]
        wrong = next((n for n, seq in enumerate(numbers, 1) if n != seq), None)
        check(wrong is None, f"chain {chain}: the consumer's record {wrong} is in its place, and there once")
        check(heard[chain] == records, f"chain {chain}: consumer and journal have the same records")


def _check_ends(journaled: Journaled) -> None:
    for name, records in journaled.tables.items():
        ends = Counter(record.round for record in records if record.kind in _FINAL)
        doubled = [number for number, count in ends.items() if count > 1]
        check(not doubled, f"{name}: a round has one end, but {doubled} have two")


def _verify(house: House) -> None:
    """`dollyd verify`, with the first key pinned: the others are announced in the chains."""
    command = [sys.executable, "-m", "dollyd.daemon", "verify", str(house.journal)]
    command += ["--keys", str(house.jwks), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    report = msgspec.json.decode(run.stdout) if run.stdout else {}
    check(run.returncode == 0 and report["ok"], f"the journal verifies: {run.stdout} {run.stderr}")
