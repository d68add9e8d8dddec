"""Tables at which no round can be opened until people act, as the journal has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from dollyd.daemon.doctor.case import Case, Finding, fault
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.journal.tail import Tail
from dollyd.daemon.table.record_words import next_orders
from dollyd.wire.errors import JournalError
from dollyd.wire.files import Sight, look_for


def blocked_tables(case: Case) -> Iterator[Finding]:
    """What waits for people: a round that nobody could resolve, or an inspection that a rule asks for."""
    if case.settings is None:
        return
    path = Path(case.settings.journal.path)
    if look_for(path) is not Sight.THERE or not os.access(path, os.R_OK):
        return  # told of elsewhere
    try:
        with closing(Journal.open(path, read_only=True)) as journal:
            tails = {name: journal.tail(name) for name in case.settings.tables}
    except JournalError:
        return  # told of elsewhere
    for name, tail in tails.items():
        if tail is not None:
            yield from _blocked(name, tail, case.file)


def _blocked(table: str, tail: Tail, file: str) -> Iterator[Finding]:
    if tail.open_round is not None and tail.doubt is not None:
        body = tail.doubt["body"]
        what = f"table {table} is blocked: round {tail.open_round} is unresolved by {body['rule']}"
        what += f" ({body['text']}), since {tail.doubt['time']['utc']}"
        yield fault("table-blocked", what, next_orders(table, tail.open_round, f"--config {file}"))
    elif tail.inspection and tail.session_open:
        what = f"table {table} is blocked: {tail.inspection} asks for an inspection before the next round"
        remedy = f"look, then: dollyd table --config {file} --table {table} --role ROLE --key FILE inspected"
        yield fault("table-inspection", what, remedy)
