"""What the rigs print: a line for each case as it ends, and all of them as a table."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table


class Report:
    """What was done, what was seen, and whether it was right."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._rows: list[tuple[str, str, float, bool]] = []

    def add(self, name: str, seen: str, began_s: float, *, good: bool) -> bool:
        """Tell of a case that began at a monotonic time; whether it was right."""
        took_s = time.monotonic() - began_s
        self._rows.append((name, seen, took_s, good))
        print(f"{'ok    ' if good else 'FAILED'} {name} ({took_s:.0f} s): {seen}", flush=True)
        return good

    def finish(self) -> bool:
        """Print the table; whether everything was right."""
        table = Table("case", "what was seen", "s", "", title=self._title, show_lines=True)
        for name, seen, took_s, good in self._rows:
            table.add_row(name, seen, f"{took_s:.0f}", "ok" if good else "FAILED")
        Console(width=140).print(table, markup=False)
        return all(good for *_, good in self._rows)
