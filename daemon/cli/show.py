"""`dollyd show`: records in readable lines, each of them verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dollyd.client.proof.reading import Read
from dollyd.client.proof.sources import SourceError
from dollyd.client.proof.unpack import UNPACKED_MAX_BYTES
from dollyd.client.proof.verify import PROBLEMS_MAX, SO_OF_MORE
from dollyd.daemon.cli.options import MaxBytes, TrustMinVersion
from dollyd.daemon.cli.verify import EXIT_UNPINNED, trusted_keys, verdict, verify_file
from dollyd.daemon.evidence.record_lines import line_of
from dollyd.daemon.host.terminal import say, say_json
from dollyd.wire.jws import EnvelopeError, parse_envelope


def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDS",
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
    max_bytes: MaxBytes = UNPACKED_MAX_BYTES,
    local: Annotated[bool, typer.Option("--local", help="Times of this machine's zone, not UTC.")] = False,
    unpinned: Annotated[
        bool, typer.Option("--unpinned", help="Exit 0 also where no keys were given to trust.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help='A JSON object a line: {"record": ..., "wrong": [...]}.')
    ] = False,
) -> None:
    """Decode records into a line each, and verify them as they come; chains may begin in their middle.

    What is wrong stands below its record. Exit 0: good, by keys that you trust. 1: not good. 3: consistent,
    but nobody vouches for the key.
    """
    told: set[str] = set()

    def tell(data: bytes, found: Read, wrong: list[str]) -> None:
        told.update(wrong)
        record = {} if found.problem else _payload(data)
        if as_json:
            say_json({"record": record, "wrong": wrong})
            return
        if record:
            say(line_of(record, local=local))
        for why in wrong:
            say(f"  WRONG: {why}")

    try:
        trusted = trusted_keys(file, keys, trust, root, trust_min_version, max_bytes)
        report = verify_file(file, trusted, max_bytes=max_bytes, part=True, judged=tell)
    except (SourceError, OSError) as error:
        say(f"{file}: {error}", to_stderr=True)
        raise typer.Exit(1) from error
    vouched = trusted is not None
    if not as_json:
        for problem in report.problems:
            if problem.why.partition(SO_OF_MORE)[0] not in told:
                say(f"WRONG in the file: {problem.why}")
        if len(report.problems) >= PROBLEMS_MAX:
            say(f"and no further: {PROBLEMS_MAX} faults are told")
        say(verdict(report, vouched=vouched))
    if not report.ok:
        raise typer.Exit(1)
    if not vouched and not unpinned:
        raise typer.Exit(EXIT_UNPINNED)


def _payload(data: bytes) -> dict[str, object]:
    """The record in an envelope that was read already."""
    try:
        record: dict[str, object] = json.loads(parse_envelope(data).payload)
    except EnvelopeError:
        return {}
    return record
