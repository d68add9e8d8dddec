"""Records from a journal or an evidence file: what the node does not keep any more, or never sent."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.archive.store import Chain, Store
from dollyd.client.proof.evidence import EvidenceFile, is_evidence
from dollyd.client.proof.sources import JournalFile, SourceError, batches
from dollyd.client.proof.unpack import UNPACKED_MAX_BYTES
from dollyd.client.stream.site_trust import trust_of
from dollyd.wire.jws import Keys
from dollyd.wire.key_source import KeySource, source_of

BATCH = 1000
"""Envelopes of one transaction."""


@dataclass(slots=True)
class Import:
    """What became of the records of a file."""

    records: int = 0
    new: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """By reason."""
    chains: list[Chain] = field(default_factory=list)
    """All that the data base has now."""


def import_file(
    path: Path, store: Store, site: str, keys: Keys | KeySource, max_bytes: int = UNPACKED_MAX_BYTES
) -> Import:
    """Archive every record of the file whose signature is trusted, also while the file is in use.

    Where retention has removed the beginning of a chain from a journal, and the archive has nothing of it
    either, the chain begins there.

    Raises `SourceError` and `StoreError`; what was archived until then stays.
    """
    try:
        source = EvidenceFile(path, max_bytes) if is_evidence(path) else JournalFile(path)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    done = Import()
    intake = Intake(site, keys, store.announced)
    with closing(source):
        for batch in batches(source.envelopes(), BATCH):
            entries = intake.take(map(Heard, batch))
            done.records += len(batch)
            done.new += store.insert(entries, intake.suspects)
        if isinstance(source, JournalFile):
            for chain, (seq, prev) in source.starts().items():
                store.begin(chain, seq, prev)
    store.advance(trust_of(source_of(keys)))
    done.refused, done.chains = dict(intake.refused), store.chains()
    return done
