"""The acts of `dollyd demo --all`: all tables play at once, then everything is proven."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from dollyd.simulators.demo.display import Display, words
from dollyd.simulators.demo.listener import Listener
from dollyd.simulators.demo.pit import Happened, Pit, Truth
from dollyd.simulators.demo.pit_checks import EXPECTATIONS
from dollyd.simulators.demo.tables import TABLES

_EVENING_S = 80.0


class PitScript:
    """Plays every evening and tells what comes of it."""

    expectations = EXPECTATIONS

    def __init__(self, stage: Pit, display: Display) -> None:
        self.listener = Listener(stage, self._on_record)
        self.stage = stage
        self.display = display

    @property
    def games(self) -> Truth:
        """What the devices say that they played, by table."""
        return self.stage.games

    async def open(self) -> None:
        """Set the pit up."""
        self.display.act(
            "Setting up", "A throw-away key, a broker, and the daemon with the shipped examples."
        )
        await self.stage.open()

    async def play(self) -> int:
        """All acts; gives the exit code of the daemon."""
        listener = self.listener
        await self.stage.until(lambda: listener.connected and len(listener.states) == len(TABLES), "tables")
        self.display.act(
            "1. Every game",
            "Ten tables open at once. At each something goes wrong: a fault of a device, a die on its "
            "edge, a dealer who says no. Every round ends by a written rule.",
        )
        self.stage.play(self._on_happening)
        await self.stage.until(lambda: self.stage.over, "the end of all evenings", _EVENING_S)
        self.display.act(
            "2. Proof",
            "The daemon stops in good order. Its journal is verified offline, every decision derived from "
            "the raw frames again, and every result compared with what the devices really did.",
        )
        return await self.stage.stop_daemon()

    def show(self) -> None:
        """Everything is told in lines."""
        self.display.refresh()

    def _on_happening(self, table: str, happened: Happened) -> None:
        order = str(happened.get("order", ""))
        if order.startswith(("fault", "key VOID", "key REJECT")):
            self._tell(table, Text(f"{happened['device']}: {order}"))

    def _on_record(self, record: dict[str, Any]) -> None:
        if record["kind"] != "incident" and (line := words(record)):
            self._tell(record["table"], line)

    def _tell(self, table: str, line: Text) -> None:
        self.display.tell(Text.assemble(f"{table:14} ", line))
