"""What must hold at the end."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

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


def read_journal(*journals: Path) -> Journaled:
    """Everything in one journal, or in several that hold parts of the same chains."""
    journaled = Journaled()
    seen: dict[tuple[str, int], str] = {}
    for path in journals:
        with closing(JournalFile(path)) as journal:
            for envelope in journal.envelopes():
                record = msgspec.json.decode(parse_envelope(envelope).payload)
                place, digest = (record["chain"], record["seq"]), sha256(envelope).hexdigest()
                if place in seen:
                    check(seen[place] == digest, f"record {place[1]} of chain {place[0]} is one and the same")
                    continue
                seen[place] = digest
                journaled.chains[record["chain"]].append((record["seq"], digest))
                journaled.tables[record["table"]].append(kept(record))
                journaled.kinds[record["kind"]] += 1
    return journaled


def judge(
    house: House, journaled: Journaled, tables: Sequence[PlayedTable], consumer: Consumer
) -> Counter[str]:
    """What became of the games. Raises `SoakError` naming the promise that is broken."""
    check(len(journaled.chains) == len(tables), "every table has gone on with the chain that it began")
    reasons = judge_play(journaled, tables, consumer)
    verify(house.journal, house.jwks)
    return reasons


def judge_play(journaled: Journaled, tables: Sequence[PlayedTable], consumer: Consumer) -> Counter[str]:
    """What became of the games, and that the consumer has all that is kept. Raises `SoakError`."""
    check_consumer(journaled, consumer.heard())
    _check_ends(journaled)
    reasons: Counter[str] = Counter()
    for table in tables:
        check_odds(table, journaled.tables[table.name])
        reasons += explain(table, journaled.tables[table.name])
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


def verify(journal: Path, jwks: Path) -> None:
    """`dollyd verify`, with the first key pinned: the others are announced in the chains."""
    command = [sys.executable, "-m", "dollyd.daemon", "verify", str(journal)]
    command += ["--keys", str(jwks), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    report = msgspec.json.decode(run.stdout) if run.stdout else {}
    check(run.returncode == 0 and report["ok"], f"the journal verifies: {run.stdout} {run.stderr}")
