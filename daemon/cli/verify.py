"""`dollyd verify`: prove a journal or an evidence file offline."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dollyd.client.proof.evidence import is_evidence, trust_of, verify_evidence
from dollyd.client.proof.sources import SourceError, envelopes_of_lines
from dollyd.client.proof.unpack import UNPACKED_MAX_BYTES
from dollyd.client.proof.verify import (
    MID_CHAIN,
    PROBLEMS_MAX,
    Judged,
    Problem,
    Report,
    verify_envelopes,
    verify_journal,
)
from dollyd.client.witness.witness import check_witness
from dollyd.daemon.cli.given_keys import keys_for_verification
from dollyd.daemon.cli.options import MaxBytes, TrustMinVersion
from dollyd.daemon.host.terminal import say, say_json
from dollyd.daemon.keys.trust_file import read_jwks
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import EnvelopeError, Keys
from dollyd.wire.trust import Trust, load_trust

EXIT_UNPINNED = 3
"""Consistent, and nobody vouches for the keys."""
FROM_THE_FILE = (
    "the trust file came out of the evidence file itself: whoever made that has chosen it, and it may lack a"
    " revocation. Give the site's newest by --trust, or the lowest that will do by --trust-min-version"
)
SQLITE_MAGIC = b"SQLite format 3\x00"


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A journal, an evidence file, or envelopes as JSON Lines; - for standard input.",
        ),
    ],
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="JWKS", help="Trust only these keys (a JWK set).")
    ] = None,
    trust: Annotated[
        Path | None, typer.Option("--trust", metavar="FILE", help="Or only those of this trust file ...")
    ] = None,
    root: Annotated[
        str,
        typer.Option(
            "--root",
            metavar="KID",
            help="... and the root that it is signed under. Alone: the trust file in the evidence file.",
        ),
    ] = "",
    trust_min_version: TrustMinVersion = 0,
    witness: Annotated[
        Path | None, typer.Option("--witness", metavar="FILE", help="Statements of witnesses, one a line ...")
    ] = None,
    witness_keys: Annotated[
        Path | None, typer.Option("--witness-keys", metavar="JWKS", help="... and the keys of the witnesses.")
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="The chain, and only the signatures that seal it.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes; 0: one for each core.")] = 0,
    max_bytes: MaxBytes = UNPACKED_MAX_BYTES,
    part: Annotated[
        bool, typer.Option("--part", help="Chains may begin in their middle: judge what is here.")
    ] = False,
    unpinned: Annotated[
        bool, typer.Option("--unpinned", help="Exit 0 also where no keys were given to trust.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Check signatures, chain, and one final record a round; say where and why it fails.

    Exit 0: good, by keys that you trust. 1: not good. 3: consistent, but nobody vouches for the key: without
    --keys or --trust anybody could have made the file with a key of his own.
    """
    try:
        trusted = trusted_keys(file, keys, trust, root, trust_min_version, max_bytes)
        report = verify_file(file, trusted, jobs=jobs or _cores(), fast=fast, max_bytes=max_bytes, part=part)
    except (SourceError, OSError) as error:
        say(f"{file}: {error}", to_stderr=True)
        raise typer.Exit(1) from error
    if witness is not None:
        _check_witness(witness, witness_keys, report)
    vouched = trusted is not None
    by = trusted if isinstance(trusted, Trust) else None
    if by is not None and trust is None:
        report.notes.append(FROM_THE_FILE)
    if report.problems and not report.heads and not as_json:
        _say_no_records(file, report)
    if as_json:
        say_json(_as_dict(report, by, vouched=vouched))
    else:
        _print(file, report, by, vouched=vouched)
    if not report.ok:
        raise typer.Exit(1)
    if not vouched and not unpinned:
        raise typer.Exit(EXIT_UNPINNED)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def verify_file(
    file: Path,
    keys: Keys | Trust | None,
    *,
    jobs: int = 1,
    fast: bool = False,
    max_bytes: int = UNPACKED_MAX_BYTES,
    part: bool = False,
    judged: Judged | None = None,
) -> Report:
    """A journal, an evidence file or JSON Lines, `-` for standard input. Raises `SourceError`, `OSError`."""
    how: Any = {"jobs": jobs, "fast": fast, "judged": judged}
    if str(file) == "-":
        return verify_envelopes(envelopes_of_lines(sys.stdin.buffer), keys, part=part, **how)
    with file.open("rb") as stream:
        if stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
            return verify_journal(file, keys, **how)
        if is_evidence(file):
            return verify_evidence(file, keys, max_bytes=max_bytes, **how)
        stream.seek(0)
        return verify_envelopes(envelopes_of_lines(stream), keys, part=part, **how)


def trusted_keys(
    file: Path, keys: Path | None, trust: Path | None, root: str, min_version: int, max_bytes: int
) -> Keys | Trust | None:
    """Whom the options name, None where they name nobody. Raises `ConfigError`."""
    if not root or keys is not None or trust is not None:
        return keys_for_verification(keys, trust, root, min_version)
    remedy = "give the site's trust file by --trust, and the root that it is signed under"
    if str(file) == "-" or not is_evidence(file):
        problem = "is no evidence file, and only such a one has a trust file in it"
        raise ConfigError(str(file), "--root", problem, remedy)
    data = trust_of(file, max_bytes)
    if data is None:
        raise ConfigError(str(file), "", "has no trust.json", remedy)
    try:
        return load_trust(data, root, min_version)
    except EnvelopeError as error:
        raise ConfigError(str(file), "trust.json", str(error), remedy) from error


def _check_witness(statements: Path, jwks: Path | None, report: Report) -> None:
    remedy = "give the statements by --witness and the keys of the witnesses by --witness-keys"
    if jwks is None:
        raise ConfigError("--witness-keys", "", "missing", remedy)
    try:
        lines = statements.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(str(statements), "", error.strerror or str(error), remedy) from error
    keys = read_jwks(jwks)
    problems = []
    for number, line in enumerate(lines, start=1):
        try:
            check = check_witness(line, keys, report)
        except EnvelopeError as error:
            problems.append(Problem(0, "", "", 0, f"{statements}, line {number}: {error}"))
            continue
        said = check.statement
        if check.why:
            why = f"witness {said.witness}, {said.time}: {check.why}"
            problems.append(Problem(0, said.table, said.chain, said.seq, why))
        else:
            report.notes.append(
                f"table {said.table}, chain {said.chain}: witness {said.witness} saw record {said.seq} so"
            )
    report.problems += problems


def _as_dict(report: Report, trust: Trust | None, *, vouched: bool) -> dict[str, object]:
    return {
        "ok": report.ok,
        "vouched": vouched,
        "records": report.records,
        "rounds": report.rounds,
        "kinds": dict(report.kinds),
        "keys": report.keys,
        "trust": trust and {"version": trust.version, "issued": trust.file.issued, "root": trust.root},
        "captures": report.captures,
        "chains": {
            chain: {
                "table": head.table,
                "first": head.first,
                "seq": head.seq,
                "digest": head.digest,
                "open_round": head.open_round,
            }
            for chain, head in report.heads.items()
        },
        "site": _sites(report),
        "since": report.facts.since,
        "until": report.facts.until,
        "persons": dict(report.facts.persons),
        "clock": {
            "unsynchronised": report.facts.unsynchronised,
            "error_bound_us": report.facts.error_bound_us,
        },
        "notes": report.notes,
        "problems": [
            {"at": p.at, "table": p.table, "chain": p.chain, "seq": p.seq, "why": p.why}
            for p in report.problems
        ],
    }


def _print(file: Path, report: Report, trust: Trust | None = None, *, vouched: bool = True) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    say(f"{file}: {report.records} records ({kinds}), {report.rounds} rounds ended")
    if trust is not None:
        say(f"  trust file: version {trust.version} of {trust.file.issued}, root {trust.root}")
    for kid, word in report.keys.items():
        say(f"  key {kid}: {word}")
    for chain, head in report.heads.items():
        open_round = f", round {head.open_round} is open" if head.open_round else ""
        say(f"  table {head.table}, chain {chain}: {head.seq} records, head {head.digest}{open_round}")
    for note in report.notes:
        say(f"  note: {note}")
    for problem in report.problems:
        say(f"  WRONG {_place(problem)}: {problem.why}")
    if len(report.problems) >= PROBLEMS_MAX:
        say(f"  and no further: {PROBLEMS_MAX} faults are told")
    if any(problem.why.startswith(MID_CHAIN) for problem in report.problems):
        say("  records of a chain's middle are judged with --part")
    _print_facts(report)
    say(verdict(report, vouched=vouched))


def verdict(report: Report, *, vouched: bool) -> str:
    """What a verification comes to."""
    unvouched = f"consistent, but nobody vouches for the {'key' if len(report.keys) == 1 else 'keys'}"
    return ("good" if vouched else unvouched) if report.ok else "NOT GOOD"


def _print_facts(report: Report) -> None:
    """What people ask: where and when, decided by whom, by what clock."""
    facts = report.facts
    if not report.heads:
        return
    say(f"site {', '.join(_sites(report))}; tables {', '.join(report.tables)}")
    say(f"from {facts.since} to {facts.until}, as the records say")
    persons = ", ".join(f"{person}: {count}" for person, count in sorted(facts.persons.items()))
    say(f"decided by hand: {persons or 'nothing'}")
    unset = f"{facts.unsynchronised} of {report.records} records were made while nothing set it; else "
    bound = f"off by {facts.error_bound_us} microseconds at most"
    say(f"clock: {unset if facts.unsynchronised else ''}{bound}")


def _sites(report: Report) -> list[str]:
    return sorted({head.site for head in report.heads.values()})


def _say_no_records(file: Path, report: Report) -> None:
    """A file of something else is told in one line."""
    first = report.problems[0]
    kind = "a journal, an evidence file, or JSON Lines with one envelope a line"
    what = first.why if not first.at else f"not {kind}; line {first.at}: {first.why}"
    say(f"{file}: {what}", to_stderr=True)
    raise typer.Exit(1)


def _place(problem: Problem) -> str:
    place = f"table {problem.table}, chain {problem.chain}, seq {problem.seq}" if problem.table else ""
    if problem.at:
        return f"at envelope {problem.at} ({place or 'no record'})"
    return f"({place})" if place else "in the file"
