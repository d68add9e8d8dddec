"""`dollyd verify`: prove a journal offline."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dollyd.client.jws import Keys, keys_of_jwks
from dollyd.client.sources import SourceError, envelopes_of_lines
from dollyd.client.verify import Report, verify_envelopes, verify_journal
from dollyd.daemon.errors import ConfigError

SQLITE_MAGIC = b"SQLite format 3\x00"


def verify(
    journal: Annotated[
        Path,
        typer.Argument(
            metavar="JOURNAL", help="A journal, or envelopes as JSON Lines; - for standard input."
        ),
    ],
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="JWKS", help="Trust only these keys (a JWK set).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Check signatures, chain, and one final record a round; say where and why it fails (exit 1)."""
    pinned = _pinned(keys) if keys else None
    try:
        report = _verify(journal, pinned)
    except (SourceError, OSError) as error:
        print(f"{journal}: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    if as_json:
        print(json.dumps(_as_dict(report)))
    else:
        _print(journal, report)
    if not report.ok:
        raise typer.Exit(1)


def _verify(journal: Path, pinned: Keys | None) -> Report:
    if str(journal) == "-":
        return verify_envelopes(envelopes_of_lines(sys.stdin.buffer), pinned)
    with journal.open("rb") as file:
        if file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
            return verify_journal(journal, pinned)
        file.seek(0)
        return verify_envelopes(envelopes_of_lines(file), pinned)


def _pinned(path: Path) -> Keys:
    try:
        return keys_of_jwks(json.loads(path.read_text("utf-8"))["keys"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            str(path), "keys", str(error), "give the JWK set that `dollyd keys show` prints"
        ) from error


def _as_dict(report: Report) -> dict[str, object]:
    return {
        "ok": report.ok,
        "records": report.records,
        "rounds": report.rounds,
        "kinds": dict(report.kinds),
        "keys": report.keys,
        "captures": report.captures,
        "chains": {
            chain: {
                "table": head.table,
                "seq": head.seq,
                "digest": head.digest,
                "open_round": head.open_round,
            }
            for chain, head in report.heads.items()
        },
        "problems": [
            {"at": p.at, "table": p.table, "chain": p.chain, "seq": p.seq, "why": p.why}
            for p in report.problems
        ],
    }


def _print(journal: Path, report: Report) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    print(f"{journal}: {report.records} records ({kinds}), {report.rounds} rounds ended")
    for kid, trust in report.keys.items():
        print(f"  key {kid}: {trust}")
    for chain, head in report.heads.items():
        open_round = f", round {head.open_round} is open" if head.open_round else ""
        print(f"  table {head.table}, chain {chain}: {head.seq} records, head {head.digest}{open_round}")
    for problem in report.problems:
        place = (
            f"table {problem.table}, chain {problem.chain}, seq {problem.seq}"
            if problem.table
            else "no record"
        )
        print(f"  WRONG at envelope {problem.at} ({place}): {problem.why}")
    print("good" if report.ok else "NOT GOOD")
