"""The acts: what is done to the table, and what must follow before the play goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rich.text import Text

from dollyd.simulators.demo.checks import EXPECTATIONS
from dollyd.simulators.demo.display import Display, words
from dollyd.simulators.demo.listener import Listener
from dollyd.simulators.demo.roulette import TABLE, UNRESOLVED_VOID_AFTER_S, Game, RouletteStage
from dollyd.simulators.demo.stage import StageError
from dollyd.wire.record import FINAL_KINDS

Record = dict[str, Any]

_READING_S = 2.0
_CABLE_OUT_S = 1.5
_CABLE_TRIES = 3
_OUTAGE_GAMES = 2


class Script:
    """Plays the acts on a stage and tells them on a display. Every method raises `StageError`."""

    expectations = EXPECTATIONS

    def __init__(self, stage: RouletteStage, display: Display) -> None:
        self.listener = Listener(stage, self._on_record)
        self.stage = stage
        self.display = display

    @property
    def games(self) -> tuple[Game, ...]:
        """What the wheel says that it played."""
        return tuple(self.stage.games)

    async def open(self) -> None:
        """Set the table up."""
        self.display.act(self.display.view.act, self.display.view.story)
        await self.stage.open()

    async def play(self) -> int:
        """All acts; gives the exit code of the daemon."""
        self.stage.order("odds", "table 1")
        self.stage.order("odds", "table 2")
        await self._open_the_table()
        await self._two_tables()
        await self._failed_launch()
        await self._ball_lost()
        await self._pulled_cable()
        await self._dead_broker()
        return await self._close_the_table()

    # --- the acts ------------------------------------------------------------------------------------

    async def _open_the_table(self) -> None:
        await self.stage.until(lambda: self.listener.states and self.listener.connected, "word of the daemon")
        heard = self.listener
        await self.stage.until(
            lambda: heard.opens(TABLE, "wheel") and heard.status(TABLE, "odds") == "ready", "its devices"
        )
        self.stage.wheel_heard = True
        self.stage.order("wheel", "power-on")
        await self._record("round")

    async def _two_tables(self) -> None:
        await self._act(
            "1. Results",
            "The wheel throws the ball, closes the bets and reads the number. In variant B an odds box "
            "then draws which of two odds tables pays this round. Each result is signed, written to "
            "disk, and only then sent to whoever settles the bets.",
        )
        await self._record("result", lambda body: body["odds"]["table"] == 1)
        await self._record("result", lambda body: body["odds"]["table"] == 2)

    async def _failed_launch(self) -> None:
        await self._act(
            "2. A failed launch",
            "The ball does not reach the rim, and the wheel fires it again. No bet has lost its chance, "
            "so the round goes on. The failed launch is recorded all the same.",
        )
        since = self._now()
        self.stage.order("wheel", "fault launch-failed")
        relaunch = await self._record("incident", lambda body: body["what"] == "relaunch", since)
        await self._of_round(relaunch["round"], "result")

    async def _ball_lost(self) -> None:
        await self._act(
            "3. A void round",
            "The sensors lose the ball and the wheel reports a fault. There may be a ball in a pocket, "
            "but nobody guesses: a written rule makes the round void, and the record names the rule. "
            "The wheel stops, the staff see to it, and play goes on.",
        )
        since = self._now()
        self.stage.order("wheel", "fault ball-lost")
        await self._record("void", since=since)
        await self._record("result", since=self._now())

    async def _pulled_cable(self) -> None:
        await self._act(
            "4. A pulled cable",
            "In mid-spin somebody pulls the wheel's cable. The ball falls, but nobody hears where: the "
            "round is unresolved, and the table is blocked. Plugged in again, the wheel is known at "
            f"once. The house's rules let {UNRESOLVED_VOID_AFTER_S} seconds pass here, then void the "
            "round as unrecoverable.",
        )
        unresolved = await self._pull_in_mid_spin()
        await asyncio.sleep(_CABLE_OUT_S)
        since = self._now()
        self._tell("the cable is plugged in again")
        self.stage.order("wheel", "plug")
        await self._record("incident", lambda body: body["what"] == "device-back", since)
        self.stage.wheel_heard = True
        await self._of_round(unresolved["round"], "void")
        await self._record("result", since=self._now())

    async def _pull_in_mid_spin(self) -> Record:
        """Pull the cable when bets are closed; on a slow computer the number may have been quicker."""
        for _ in range(_CABLE_TRIES):
            closed = await self._record("bets-closed", since=self._now())
            self.stage.wheel_heard = False
            self.stage.order("wheel", "unplug")
            self._tell("somebody pulls the cable of the wheel")
            ended = await self._of_round(closed["round"], "unresolved", "result")
            if ended["kind"] == "unresolved":
                return ended
            self.stage.order("wheel", "plug")
            await self._record("incident", lambda body: body["what"] == "device-back", self._now())
            self.stage.wheel_heard = True
        raise StageError(
            f"the wheel was quicker than the cable {_CABLE_TRIES} times: is this computer very busy?"
        )

    async def _dead_broker(self) -> None:
        await self._act(
            "5. A dead broker",
            "The broker is killed in mid-play (kill -9). The table plays on: results go to the journal "
            "on disk. When the broker is back, everything is sent from there. Some records come twice, "
            "none is lost: the subscriber knows each by its number in the chain.",
        )
        await self._record("bets-closed", since=self._now())
        await self.stage.kill_broker()
        self.listener.connected = False
        self._tell("the broker is dead")
        await self.stage.until(lambda: len(self._unheard_games()) >= _OUTAGE_GAMES, "games during the outage")
        self._tell(f"meanwhile the wheel played {', '.join(self._unheard_games())}; nobody has heard of it")
        since = self._now()
        await self.stage.start_broker()
        self._tell("the broker is back")
        for _ in range(_OUTAGE_GAMES):
            await self._record("result", since=since)
            since = self._now()

    async def _close_the_table(self) -> int:
        await self._act(
            "6. Proof",
            "After one more result the daemon stops in good order. Then its journal is verified "
            "offline, every signature once more with another library, and all that was received is "
            "compared with the journal and with what the wheel itself says it played.",
        )
        await self._record("result", since=self._now())
        self.stage.order("wheel", "power-off")
        self.stage.wheel_heard = False
        return await self.stage.stop_daemon()

    async def _act(self, title: str, story: str) -> None:
        """Give people time to read; the table plays on."""
        self.display.act(title, story)
        await asyncio.sleep(_READING_S)

    # --- waiting -------------------------------------------------------------------------------------

    async def _record(
        self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda _: True, since: int = 0
    ) -> Record:
        """Wait for a record of a kind; those before `since` do not count."""

        def seen() -> Record | None:
            fresh = self.listener.records[since:]
            return next((r for r in fresh if r["kind"] == kind and fits(r["body"])), None)

        return await self.stage.until(seen, f"a record of kind {kind}")

    async def _of_round(self, number: int, *kinds: str) -> Record:
        """Wait for a record of one of these kinds about one round."""

        def seen() -> Record | None:
            every = self.listener.records
            return next((r for r in every if r["round"] == number and r["kind"] in kinds), None)

        return await self.stage.until(seen, f"the {' or '.join(kinds)} of round {number}")

    def _now(self) -> int:
        return len(self.listener.records)

    def _unheard_games(self) -> list[str]:
        return [game.pocket for game in self.stage.games if game.pocket and not game.broker_up]

    # --- telling -------------------------------------------------------------------------------------

    def _tell(self, text: str) -> None:
        self.display.tell(Text(text, style="bold"))

    def _on_record(self, record: Record) -> None:
        if record["kind"] in FINAL_KINDS:
            self.display.view.outcomes.append(record)
        if line := words(record):
            self.display.tell(line)

    def show(self) -> None:
        """Bring the picture up to date."""
        view = self.display.view
        state = self.listener.states.get(TABLE, {})
        view.phase, view.round = state.get("phase", ""), state.get("round", 0)
        view.devices = {name: self.listener.status(TABLE, name) for name in ("wheel", "odds")}
        view.daemon_up, view.broker_up = self.stage.daemon_up, self.stage.broker_up
        view.records, view.repeats = self._now(), self.listener.repeats
        self.display.refresh()
