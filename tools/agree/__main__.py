"""Damage files, ask all verifiers, compare: `python -m tools.agree FILES --seed N`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import structlog
from tests.support.chains import ChainMaker, signer
from tests.support.commands import trust
from tests.support.nights import Night
from tools.agree.damage import DAMAGE, TRUSTED, Lines
from tools.agree.evidence import EVIDENCE_DAMAGE, good_evidence
from tools.agree.readers import archive_differs, stream_differs
from tools.agree.stolen import STOLEN
from tools.agree.verifiers import OURS, Foreign, MissingError, go, is_good, javascript, ours
from tools.schemas.evening import Evening, whole_evening

from dollyd.wire.jws import Keys, keys_of_jwks

BATCH = 500
STOLEN_EVERY = 6
"""One of so many is one that a stolen key has signed: those readers are asked about, too."""
ARCHIVED_EVERY = 10
"""And of those one of so many is archived."""
EVIDENCE_EVERY = 15
"""One of so many files is an evidence file."""
PERSONS = trust(keys=[signer(seed) for seed in TRUSTED])
"""The trust file that knows the persons, where keys alone do not."""
NIGHT_PERIODS = 250
DISAGREEMENTS_SHOWN = 20


@dataclass
class Outcome:
    """What came of all files."""

    good: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)


def good_chains() -> list[Lines]:
    """Chains to damage: short and long, one and two tables, a new key, a lost one, and a night as played."""
    two = Evening("r2", "b" * 32, signer(3)).open().result(1)
    one = Evening().open().result(1)
    mixed = [line for pair in zip(one.envelopes, two.envelopes, strict=True) for line in pair]
    lost = one.envelopes + Evening(chain="c" * 32, by=signer(3)).begin(after=one).play(1, 1).envelopes
    return [whole_evening().envelopes, one.envelopes, mixed, lost, played_night()]


def played_night() -> Lines:
    """The records of a simulated table with faults, cables pulled, and staff."""
    night = Night(7)
    night.play(NIGHT_PERIODS)
    chain = ChainMaker().begin()
    for record in night.table.records:
        chain.add(record.kind, record.round, msgspec.json.decode(record.body))
    return chain.envelopes


def agree(count: int, seed: int, foreign: Sequence[Foreign], folder: Path) -> Outcome:
    """Ask about `count` damaged files, in batches."""
    rng, chains, outcome = Random(seed), good_chains(), Outcome()
    evidence = good_evidence(folder)
    line_damage, tar_damage = cycle(DAMAGE.items()), cycle(EVIDENCE_DAMAGE.items())
    stolen = cycle(STOLEN.items())
    jwks = [signer(one).jwk for one in TRUSTED]
    keys_file = folder / "keys.json"
    keys_file.write_text(json.dumps({"keys": jwks}))
    keys = keys_of_jwks(jwks)
    with ThreadPoolExecutor(len(foreign)) as pool:
        for first in range(0, count, BATCH):
            files: dict[Path, str] = {}
            for number in range(first, min(first + BATCH, count)):
                if number % EVIDENCE_EVERY == 0:
                    file = folder / f"{number - first}.tar"
                    files[file], pack = next(tar_damage)
                    file.write_bytes(pack(rng.choice(evidence), rng))
                    continue
                file = folder / f"{number - first}.jsonl"
                if number % STOLEN_EVERY == 1:
                    files[file], make = next(stolen)
                    lines = make(rng)
                    _ask_readers(number, files[file], lines, keys, folder, outcome)
                else:
                    files[file], change = next(line_damage)
                    lines = change(rng.choice(chains), rng)
                file.write_bytes(b"".join(line + b"\n" for line in lines))
            asked = [pool.submit(one.verdicts, keys_file, list(files)) for one in foreign]
            said = {"ours": [ours(keys, file) for file in files]}
            said |= {one.name: future.result() for one, future in zip(foreign, asked, strict=True)}
            _compare(first, list(files.values()), said, outcome)
    return outcome


def _ask_readers(number: int, damage: str, lines: Lines, keys: Keys, folder: Path, outcome: Outcome) -> None:
    why = stream_differs(lines, keys) or stream_differs(lines, PERSONS)
    if not why and number // STOLEN_EVERY % ARCHIVED_EVERY == 0:
        why = archive_differs(lines, keys, folder)
    if why:
        outcome.disagreements.append(f"file {number}, {damage}: {why}")


def _compare(first: int, damages: list[str], said: dict[str, list[str]], outcome: Outcome) -> None:
    for index, damage in enumerate(damages):
        verdicts = {name: verdicts[index] for name, verdicts in said.items()}
        goods = {is_good(verdict) for verdict in verdicts.values() if not verdict.startswith(OURS)}
        if len(goods) > 1:
            told = "; ".join(f"{name}: {verdict}" for name, verdict in verdicts.items())
            outcome.disagreements.append(f"file {first + index}, {damage}: {told}")
        alone = verdicts["ours"].startswith(OURS)
        (outcome.good if goods == {True} and not alone else outcome.bad)[damage] += 1


def report(outcome: Outcome, seed: int) -> str:
    """A table of the damage, and where the verifiers disagree."""
    lines = [f"{'damage':24}{'files':>8}{'good':>8}{'bad':>8}"]
    for damage in (*DAMAGE, *STOLEN, *EVIDENCE_DAMAGE):
        good, bad = outcome.good[damage], outcome.bad[damage]
        lines.append(f"{damage:24}{good + bad:8}{good:8}{bad:8}")
    files = outcome.good.total() + outcome.bad.total()
    lines += [f"{'all':24}{files:8}{outcome.good.total():8}{outcome.bad.total():8}", ""]
    lines += outcome.disagreements[:DISAGREEMENTS_SHOWN]
    return "\n".join([*lines, f"{len(outcome.disagreements)} disagreements (seed {seed})"])


def main() -> int:
    """Exit 1 where the verifiers disagree, 2 where one of them cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=int, nargs="?", default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    # An archive logs what it refuses, which here is most of what it is given.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            foreign = [javascript(folder), go(folder)]
        except MissingError as error:
            print(f"Not every verifier can be had here: {error}", file=sys.stderr)
            return 2
        outcome = agree(arguments.files, arguments.seed, foreign, folder)
    print(report(outcome, arguments.seed))
    return 1 if outcome.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
