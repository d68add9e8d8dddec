"""One performance: stage, script and display brought together, then judged."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from dollyd.client.proof.sources import JournalFile, SourceError
from dollyd.simulators.demo.broker import Broker
from dollyd.simulators.demo.display import Display, LiveDisplay, PlainDisplay, View, print_findings
from dollyd.simulators.demo.evidence import Expectation, Finding, Seen, judge
from dollyd.simulators.demo.listener import Listener
from dollyd.simulators.demo.pit import Pit
from dollyd.simulators.demo.pit_script import PitScript
from dollyd.simulators.demo.roulette import RouletteStage
from dollyd.simulators.demo.script import Script
from dollyd.simulators.demo.stage import Stage, StageError

EXIT_SEEN, EXIT_MISSING, EXIT_INTERRUPTED = 0, 1, 130
TIME_LIMIT_S = 120
"""For the play; it takes about half a minute."""
_REFRESH_S = 0.1
_LAST_LOOKS = 30


class Show(Protocol):
    """What is performed on a stage."""

    display: Display
    listener: Listener
    expectations: tuple[Expectation[Any], ...]

    @property
    def stage(self) -> Stage:
        """Its processes."""
        ...

    @property
    def games(self) -> Any:
        """What the devices themselves say that they played."""
        ...

    async def open(self) -> None:
        """Set the stage up."""
        ...

    async def play(self) -> int:
        """All acts; gives the exit code of the daemon."""
        ...

    def show(self) -> None:
        """Bring the picture up to date."""
        ...


async def perform(
    make: Callable[[Path, Broker, int, Console], Show], broker: Broker, *, seed: int, keep: bool
) -> int:
    """Play, judge, clear away; gives the exit code. The directory is kept where something was missing."""
    console = Console()
    directory = Path(tempfile.mkdtemp(prefix="dollyd-demo-"))
    code = EXIT_MISSING
    try:
        with _interruptible():
            code = await _perform(make(directory, broker, seed, console), console)
    except asyncio.CancelledError:
        code = EXIT_INTERRUPTED
        console.print("\ninterrupted; nothing is left running")
    finally:
        if keep or code == EXIT_MISSING:
            console.print(f"journal, keys, configuration and logs are kept in {directory}", soft_wrap=True)
        else:
            shutil.rmtree(directory)
    return code


def one_table(directory: Path, broker: Broker, seed: int, console: Console) -> Show:
    """The roulette table and its troubles."""
    view = View(broker.name)
    display = LiveDisplay(view, console) if console.is_terminal else PlainDisplay(view, console)
    return Script(RouletteStage(directory, broker, seed), display)


def every_game(directory: Path, broker: Broker, seed: int, console: Console) -> Show:
    """A pit with a table of every game."""
    return PitScript(Pit(directory, broker, seed), PlainDisplay(View(broker.name), console))


async def _perform(show: Show, console: Console) -> int:
    outcome: Seen[Any] | str
    try:
        outcome = await _play(show)
    except StageError as error:
        outcome = str(error)
    except TimeoutError:
        outcome = f"it was not over after {TIME_LIMIT_S} s"
    finally:
        await show.stage.close()
        show.display.close()
    if isinstance(outcome, Seen):
        return report(judge(outcome, show.expectations), console)
    console.print(f"\nThe demo stopped: {outcome}", style="bold red", highlight=False, soft_wrap=True)
    return EXIT_MISSING


async def _play(show: Show) -> Seen[Any]:
    """All acts, then the evidence. Raises `StageError`, or TimeoutError after the time limit."""
    stage, listener = show.stage, show.listener
    async with asyncio.timeout(TIME_LIMIT_S):
        await show.open()
        helpers = (asyncio.create_task(listener.run()), asyncio.create_task(_keep_showing(show)))
        try:
            daemon_exit = await show.play()
            journal = tuple(_envelopes(stage.journal))
            await _last_records(listener, len(journal))
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)
            for helper in helpers:
                if not helper.cancelled():
                    helper.result()  # a bug of ours: let it be seen
        show.show()
    return Seen(
        games=show.games,
        received=tuple(listener.envelopes),
        damaged=listener.damaged,
        journal=journal,
        keys=stage.keys,
        daemon_exit=daemon_exit,
        verified=await stage.verify(),
        replayed=await stage.replay(),
    )


async def _keep_showing(show: Show) -> None:
    while True:
        show.show()
        await asyncio.sleep(_REFRESH_S)


async def _last_records(listener: Listener, count: int) -> None:
    """What the daemon sent last may still be on its way; what does not come is missing."""
    for _ in range(_LAST_LOOKS):
        if len(listener.records) >= count:
            return
        await asyncio.sleep(_REFRESH_S)


def _envelopes(journal: Path) -> list[bytes]:
    try:
        with closing(JournalFile(journal)) as file:
            return list(file.envelopes())
    except SourceError as error:
        raise StageError(str(error)) from error


def report(findings: list[Finding], console: Console) -> int:
    """Print what was promised and what was seen; gives the exit code."""
    print_findings(console, findings)
    missing = sum(bool(finding.missing) for finding in findings)
    if missing:
        console.print(f"\n{missing} of {len(findings)} were not seen.", style="bold red", highlight=False)
        return EXIT_MISSING
    console.print("\nAll of it was seen.", style="bold green")
    return EXIT_SEEN


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end the performance in good order."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if task is not None:
        for number in numbers:
            loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
