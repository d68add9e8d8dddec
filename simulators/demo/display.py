"""What people see of the demo: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dollyd.daemon.host.terminal import shown
from dollyd.simulators.demo.evidence import Finding

_OUTCOMES_KEPT = 20
_LABEL_COLUMNS, _OUTCOME_COLUMNS = 16, 5
_LINES_SHOWN = 12
_STORY_ROWS, _TABLE_ROWS, _FRAME_ROWS = 7, 7, 2
_INK = {"red": "bold white on red", "black": "bold white on grey11", "green": "bold white on green4"}
_PHASES = {
    "waiting": ("between two rounds", "grey70"),
    "bets-open": ("place your bets", "green"),
    "spinning": ("the ball is running", "yellow"),
    "no-more-bets": ("no more bets", "red"),
    "at-rest": ("the ball is at rest", "cyan"),
    "blocked": ("blocked: a round is unresolved", "bold red"),
    "table-closed": ("the table is closed", "grey70"),
}
_LAMPS = {"ready": "green", "init": "yellow", "stale": "yellow"}


@dataclass
class View:
    """The picture: filled by the script, drawn by the display."""

    broker_name: str
    act: str = "Setting up"
    story: str = "A throw-away key, a configuration, a broker, the daemon, a wheel and an odds box."
    phase: str = ""
    round: int = 0
    devices: dict[str, str] = field(default_factory=dict)
    broker_up: bool = False
    records: int = 0
    repeats: int = 0
    daemon_up: bool = False
    outcomes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_OUTCOMES_KEPT))
    """The last final records."""
    lines: deque[Text] = field(default_factory=lambda: deque(maxlen=_LINES_SHOWN))


class Display(Protocol):
    """Where the demo tells its story."""

    view: View

    def act(self, title: str, story: str) -> None:
        """A new act begins."""
        ...

    def tell(self, line: Text) -> None:
        """Something happened."""
        ...

    def refresh(self) -> None:
        """The view has changed."""
        ...

    def close(self) -> None:
        """No more pictures."""
        ...


class PlainDisplay:
    """A line for each thing that happens."""

    def __init__(self, view: View, console: Console) -> None:
        self.view = view
        self._console = console
        self._began_s = time.monotonic()

    def act(self, title: str, story: str) -> None:
        """A new act begins."""
        self._print(f"== {title}: {story}")

    def tell(self, line: Text) -> None:
        """Something happened."""
        self._print(f"   {line.plain}")

    def refresh(self) -> None:
        """Lines are told once."""

    def close(self) -> None:
        """Nothing to end."""

    def _print(self, text: str) -> None:
        self._console.out(f"{time.monotonic() - self._began_s:5.1f} {shown(text)}", highlight=False)


class LiveDisplay:
    """A picture of the table, drawn anew several times a second."""

    def __init__(self, view: View, console: Console) -> None:
        self.view = view
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()
        self.refresh()

    def act(self, title: str, story: str) -> None:
        """A new act begins."""
        self.view.act, self.view.story = title, story
        self.refresh()

    def tell(self, line: Text) -> None:
        """Something happened."""
        self.view.lines.append(line if line.plain.isprintable() else Text(shown(line.plain)))

    def refresh(self) -> None:
        """The view has changed."""
        self._live.update(picture(self.view, self._live.console.size), refresh=True)

    def close(self) -> None:
        """Leave the last picture and give the cursor back."""
        self._live.stop()


# --- records in plain words ------------------------------------------------------------------------


def words(record: dict[str, Any]) -> Text | None:
    """A record in plain words, None for those that are not worth a line."""
    body, number = record["body"], record["round"]
    match record["kind"]:
        case "session":
            return Text(f"the table is {body['event']}")
        case "result":
            odds = f", odds table {body['odds']['table']}" if "odds" in body else ""
            return Text.assemble(f"round {number}: ", outcome(body["outcome"]), odds)
        case "void":
            return Text(f"round {number}: VOID by rule `{body['rule']}`: {body['text']}", style="yellow")
        case "unresolved":
            return Text(f"round {number}: UNRESOLVED, `{body['rule']}`: {body['text']}", style="bold red")
        case "throw-rejected":
            return Text(f"round {number}: throw REJECTED by rule `{body['rule']}`: {body['text']}")
        case "incident" if body["what"] == "relaunch":
            return Text(f"round {number}: {body['text']}", style="cyan")
        case "incident" if body["what"].startswith("device-"):
            status = body["what"].removeprefix("device-")
            return Text(f"{body['device']} {status}: {body['text']}", style="cyan")
        case "gap":
            games = ", ".join(game.rsplit("/", 1)[-1] for game in body["games"])
            return Text(f"gap: no round for what was played meanwhile: {games}", style="cyan")
    return None


def outcome(drawn: dict[str, Any]) -> Text:
    """What came, in the words of its game."""
    match drawn:
        case {"pocket": _, "colour": colour}:
            return Text.assemble(pocket(drawn), f" {colour}")
        case {"number": number, "cup": cup}:
            return Text(f"number {number} in cup {cup}")
        case {"sector": sector, "symbol": symbol}:
            return Text(f"symbol {symbol}, sector {sector}")
        case {"phase": phase, "sum": total}:
            point = f" {drawn['point']}" if "point" in drawn else ""
            return Text(f"{_dice(drawn)}, {total} in phase {phase}{point}")
    return Text(f"{_dice(drawn)}, {drawn.get('sum', drawn.get('total'))}")


def _dice(drawn: dict[str, Any]) -> str:
    return "dice " + " ".join(str(face) for name, face in drawn.items() if name.startswith("die_"))


def pocket(outcome: dict[str, Any]) -> Text:
    """A number in its colour, as on the cloth."""
    return Text(f" {outcome['pocket']:>2} ", style=_INK[outcome["colour"]])


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """The list of expectations, met and not met."""
    console.print("\nWhat this demo promised, and what was really seen:", style="bold")
    for finding in findings:
        met = not finding.missing
        line = Text.assemble(
            ("  ✓ " if met else "  ✗ ", "bold green" if met else "bold red"), finding.expected
        )
        if not met:
            line.append(f": {finding.missing}", style="red")
        console.print(line, highlight=False, soft_wrap=True)


# --- the picture -----------------------------------------------------------------------------------


def picture(view: View, size: ConsoleDimensions) -> Group:
    """The whole picture, in one row less than the terminal has (from 24 rows on)."""
    rows = min(_LINES_SHOWN, size.height - 1 - _STORY_ROWS - _TABLE_ROWS - _FRAME_ROWS)
    outcomes = max(1, (size.width * 3 // 5 - _LABEL_COLUMNS) // _OUTCOME_COLUMNS)
    middle = Table.grid(expand=True)
    middle.add_column(ratio=3)
    middle.add_column(ratio=2)
    middle.add_row(_table(view, outcomes), _works(view))
    return Group(_story(view), middle, _happenings(view, max(1, rows)))


def _story(view: View) -> Panel:
    title = f"[bold]dollyd demo - {view.act}"
    return Panel(
        Text(view.story),
        title=title,
        title_align="left",
        border_style="gold3",
        padding=(0, 1),
        height=_STORY_ROWS,
    )


def _table(view: View, outcomes_shown: int) -> Panel:
    text, colour = _PHASES.get(view.phase, ("waiting for the daemon", "grey70"))
    now = (
        Text.assemble((f"round {view.round}  ", "bold"), (text, colour)) if view.round else Text(text, colour)
    )
    outcomes = Table.grid(padding=(0, 1, 0, 0))
    outcomes.add_column(no_wrap=True)
    latest_first = list(reversed(view.outcomes))[:outcomes_shown]
    outcomes.add_row("numbers", *(_number(record) for record in latest_first))
    outcomes.add_row("odds table", *(_odds(record) for record in latest_first))
    shown = Group(now, "", outcomes)
    return Panel(shown, title="roulette-1, variant B", title_align="left", height=_TABLE_ROWS)


def _number(record: dict[str, Any]) -> Text:
    if record["kind"] == "result":
        return pocket(record["body"]["outcome"])
    return Text("void", style="black on yellow")


def _odds(record: dict[str, Any]) -> Text:
    table = record["body"]["odds"]["table"] if record["kind"] == "result" else "-"
    return Text(f" {table:>2} ", style="bold magenta" if table == 2 else "")


def _works(view: View) -> Panel:
    shown = Table.grid(padding=(0, 1))
    for name, what in (("wheel", "wheel"), ("odds", "odds box")):
        status = view.devices.get(name, "init")
        shown.add_row(what, Text(f"● {status}", style=_LAMPS.get(status, "bold red")))
    shown.add_row("daemon", Text("● up", style="green") if view.daemon_up else Text("○ not running"))
    lamp = ("● up", "green") if view.broker_up else ("● DEAD", "bold red")
    shown.add_row("broker", Text.assemble(lamp, f"  {view.broker_name}"))
    shown.add_row("records", f"{view.records}, {view.repeats} came twice")
    return Panel(shown, title="devices and broker", title_align="left", height=_TABLE_ROWS)


def _happenings(view: View, rows: int) -> Panel:
    lines = Text("\n", no_wrap=True, overflow="ellipsis").join(list(view.lines)[-rows:])
    return Panel(lines, title="what happens", title_align="left", height=rows + _FRAME_ROWS)
