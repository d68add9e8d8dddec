"""Writes the generated parts of docs/rounds.md: diagrams of the phases, and who is heard in which.

    python tools/round_diagram.py           rewrites the parts between the markers

The transitions are found by trying: `step` is told every event in every phase that can be reached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from dollyd.daemon.core.events import (
    BetsClosed,
    Confirmed,
    Defect,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Event,
    Flag,
    GameEnded,
    GameRef,
    GameStarted,
    OddsDrawn,
    OddsFailed,
    Permitted,
    Reading,
    Restarted,
    TableClosed,
    TableOpened,
    ThrowRejected,
    Tick,
    TurnsBasis,
    VoidDeclared,
)
from dollyd.daemon.core.round import ACCEPTS, Emit, Phase, deadline_ns, phase, step
from dollyd.daemon.core.state import Setup, Table
from dollyd.daemon.host.secret_files import write_secret
from dollyd.daemon.settings.load import load
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rounds.md"
EXAMPLE = ROOT / "config" / "examples" / "roulette-b.toml"
DICE_TABLE = """
[tables.dice-1]
game = "tuplanoppa"
variant = "B"
rulebook = "fi-ray-2013-tuplanoppa"
profile = "fi-ray-2013"
stakes = { minimum = 100, maximum = 100000, currency = "EUR" }

[tables.dice-1.devices.dice]
driver = "tlp"
role = "dice"
port = "/dev/dice"
"""
NOW = Stamp(1, 1)
BOX = "odds"
CLEAN = DrawFacts(turns_basis=TurnsBasis.CERTIFIED)

EVENTS: dict[str, Callable[[Table, GameRef], Event]] = {
    "table opened": lambda _table, _game: TableOpened("d1"),
    "table closed": lambda _table, _game: TableClosed("d1"),
    "game started": lambda _table, game: GameStarted(replace(game, attempt=game.attempt + 1)),
    "draw started": lambda _table, game: DrawStarted(game),
    "announced": lambda _table, _game: BetsClosed("d1"),
    "no more bets": lambda _table, game: BetsClosed(game.device, game),
    "fault flag": lambda _table, game: DrawUpdate(game, replace(CLEAN, flags=(Flag.DEVICE_FAULT,))),
    "defect": lambda _table, game: DrawUpdate(game, replace(CLEAN, defects=(Defect.DATA_GAP,))),
    "permitted": lambda _table, _game: Permitted("d1"),
    "dice apart": lambda _table, game: DrawUpdate(game, replace(CLEAN, flags=(Flag.NOT_TOGETHER,))),
    "reading": lambda _table, game: Reading(game, ("3", "4") if game.device == "dice" else ("17",), CLEAN),
    "throw rejected": lambda _table, _game: ThrowRejected("d1", "dealer", "on the rail"),
    "shut down": lambda _table, game: GameEnded(game, Ending.SHUT_DOWN, CLEAN),
    "game lost": lambda _table, game: GameEnded(game, Ending.LOST, CLEAN),
    "odds drawn": lambda table, _game: OddsDrawn(BOX, table.number, 1, 1, "", ""),
    "odds refused": lambda table, _game: OddsFailed(BOX, table.number, "bad-mac"),
    "confirmed": lambda _table, _game: Confirmed("d1"),
    "void declared": lambda _table, _game: VoidDeclared("d1", "dealer", "a coin on the wheel"),
    "restart": lambda _table, _game: Restarted(""),
    "deadline": lambda _table, _game: Tick(),
}
"""What the diagram calls an event, and how to make one for a table and its game."""

Edge = tuple[Phase, Phase]


def setups(table: str) -> list[Setup]:
    """A table, confirmed by itself after a hold and by the dealer, with a limit for doubt."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / EXAMPLE.name
        path.write_text(EXAMPLE.read_text() + DICE_TABLE)
        write_secret(path.parent / "odds.key", bytes(16))
        shipped = load(path).tables[table].setup
    quick = msgspec.structs.replace(shipped.rules, game_min_ms=0, records_at_once=1_000_000)
    patient = replace(shipped, unresolved_void_ms=60_000, rules=quick)
    return [patient, replace(patient, hold_ms=2_000), replace(patient, confirm="dealer")]


def transitions(table_name: str = "roulette-1") -> dict[Edge, dict[str, None]]:
    """Every change of phase, with what brings it about in the order of `EVENTS`."""
    found: dict[Edge, dict[str, None]] = {}
    for setup in setups(table_name):
        seen: set[object] = set()
        ahead = [Table()]
        while ahead:
            table = ahead.pop()
            for name, after, verdict in _tried(setup, table):
                edge = phase(table), phase(after)
                if edge[0] is not edge[1]:
                    found.setdefault(edge, {})[f"{name}{verdict}"] = None
                if (key := _kind_of_state(after)) not in seen:
                    seen.add(key)
                    ahead.append(after)
    return found


def _tried(setup: Setup, table: Table) -> list[tuple[str, Table, str]]:
    """Each event told to one table: its name, the state after it, and the final record that it brings."""
    game = table.round.witnesses[0].game if table.round and table.round.witnesses else None
    game = game or GameRef(setup.witnesses[0], "s1", "001")
    tried = []
    for name, make in EVENTS.items():
        due_ns = deadline_ns(setup, table)
        at = Stamp(due_ns, 1) if name == "deadline" and due_ns is not None else NOW
        after, effects = step(setup, table, make(table, game), at)
        verdicts = (Kind.RESULT, Kind.VOID, Kind.THROW_REJECTED)
        ends = [e.kind for e in effects if isinstance(e, Emit) and e.kind in verdicts]
        tried.append((name, after, f" = {ends[0]}" if ends else ""))
    return tried


def _kind_of_state(table: Table) -> object:
    """What tells states apart for the diagram; numbers, times and identities do not."""
    current = table.round
    if current is None:
        return phase(table)
    heard = (current.odds is None, current.odds_failed != "", len(current.witnesses))
    return (phase(table), current.draw, *heard, current.throw.permitted is None)


def diagram(table_name: str) -> str:
    """The phases as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{one.replace("-", " ")}" as {_alias(one)}' for one in Phase]
    lines.append(f"    [*] --> {_alias(Phase.TABLE_CLOSED)}")
    order, names = list(Phase), list(EVENTS)
    found = transitions(table_name)
    for start, end in sorted(found, key=lambda edge: [order.index(one) for one in edge]):
        said = ", ".join(sorted(found[start, end], key=lambda text: names.index(text.split(" = ")[0])))
        lines.append(f"    {_alias(start)} --> {_alias(end)} : {said}")
    return "\n".join([*lines, "```"])


def accepted() -> str:
    """Which event means something in which phase, as a table."""
    kinds = sorted(set().union(*ACCEPTS.values()), key=lambda kind: kind.__name__)
    lines = [
        f"| event | {' | '.join(one.replace('-', ' ') for one in Phase)} |",
        f"|---|{':---:|' * len(Phase)}",
    ]
    for kind in kinds:
        cells = ("x" if kind in ACCEPTS[one] else "" for one in Phase)
        lines.append(f"| `{kind.__name__}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """The page with its generated parts made anew. Raises ValueError where a marker is missing."""
    parts = {"phases": diagram("roulette-1"), "phases of dice": diagram("dice-1"), "accepts": accepted()}
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"\n<!-- end {name} -->"
        before, rest = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{before}{part}{rest}"
    return page


def _alias(one: Phase) -> str:
    return one.replace("-", "_")


def main() -> int:
    """Rewrite the page."""
    page = PAGE.read_text()
    PAGE.write_text(rendered(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
