"""What the publisher needs of a journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Entry(Protocol):
    """One journaled record."""

    @property
    def id(self) -> int:
        """Place in the journal, over all tables; grows by 1."""
        ...

    @property
    def table(self) -> str:
        """Whose record it is."""
        ...

    @property
    def kind(self) -> str:
        """The record's kind, as in the topic."""
        ...

    @property
    def round(self) -> int:
        """The round that it is of, 0 for none."""
        ...

    @property
    def final(self) -> bool:
        """Whether it ends a round, and so becomes the table's retained `last`."""
        ...

    @property
    def envelope(self) -> bytes:
        """The exact bytes to publish."""
        ...


class Source(Protocol):
    """The journal, as far as the publisher sees it."""

    def entries_after(self, id_: int, limit: int, /) -> Sequence[Entry]:
        """The next entries in order of id, at most `limit`; empty at the end."""
        ...

    def cursor(self) -> int:
        """Id up to which everything was acknowledged, 0 at first."""
        ...

    def set_cursor(self, id_: int, /) -> None:
        """Keep the cursor. Losing the last ones in a power cut costs repeats, nothing else."""
        ...
