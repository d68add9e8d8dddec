"""Those who act on records, held against the verifier: what is wrong is neither delivered nor archived."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec
from tests.support.chains import SITE

from dollyd.client import ChainError, GapError
from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.archive.sqlite import SqliteStore
from dollyd.client.proof.verify import Report, verify_envelopes
from dollyd.client.stream.reader import Reader
from dollyd.wire.jws import EnvelopeError, Keys, parse_envelope
from dollyd.wire.trust import Trust


def stream_differs(lines: Sequence[bytes], trusted: Keys | Trust) -> str:
    """Where the stream that pays does not go by the verifier's word; empty where it does."""
    report = verify_envelopes(lines, trusted)
    given, refused = _delivered(lines, trusted)
    if given and (wrong := verify_envelopes(given, trusted).problems):
        return f"delivered what is wrong: {wrong[0].why}"
    if report.ok and not _waits(report) and (refused or len(given) != report.records):
        return f"refuses what is good: {refused}"
    return ""


def archive_differs(lines: Sequence[bytes], trusted: Keys | Trust, folder: Path) -> str:
    """Where what the archive calls whole is not good, or what is good does not become whole."""
    file = folder / "archive.db"
    with closing(SqliteStore(file)) as store:
        store.migrate()
        intake = Intake(SITE, trusted, store.announced)
        entries = intake.take(map(Heard, lines))
        store.insert(entries, intake.suspects)
        store.advance(trusted if isinstance(trusted, Trust) else None)
        chains = {one.chain: one for one in store.chains()}
        waits = bool(store.gaps())
        rows = store.query("SELECT chain, seq, envelope FROM records ORDER BY chain, seq")
    for left in folder.glob("archive.db*"):
        left.unlink()
    kept = [
        bytes(envelope)
        for chain, seq, envelope in rows
        if not chains[str(chain)].broken and seq <= chains[str(chain)].complete_to
    ]
    report = verify_envelopes(lines, trusted)
    if report.ok and not _waits(report):
        return (
            "" if len(kept) == report.records else f"archive: of what is good, {len(kept)} records are whole"
        )
    again = verify_envelopes(kept, trusted) if kept and not waits and not _waits(report) else None
    return f"archived as whole what is wrong: {again.problems[0].why}" if again and not again.ok else ""


def _waits(report: Report) -> bool:
    """A chain that is not here is asked for, and waited for."""
    return any("is not here" in note for note in report.notes)


def _delivered(lines: Sequence[bytes], trusted: Keys | Trust) -> tuple[list[bytes], str]:
    reader = Reader(SITE, trusted, {}, rng=Random(1))
    given: list[bytes] = []
    refused = ""
    for line in lines:
        try:
            table = str(msgspec.json.decode(parse_envelope(line).payload).get("table", "r1"))
        except EnvelopeError:
            table = "r1"
        reader.hear(table, line)
        while True:
            try:
                one = reader.next()
            except (ChainError, GapError) as error:
                refused = refused or str(error)
                continue
            if one is None:
                break
            given.append(one.envelope)
    return given, refused
