"""One performance: stage, script and display brought together, then judged."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console

from dollyd.client.sources import JournalFile, SourceError
from dollyd.simulators.demo.broker import Broker
from dollyd.simulators.demo.checks import Finding, Seen, judge
from dollyd.simulators.demo.display import Display, LiveDisplay, PlainDisplay, View, print_findings
from dollyd.simulators.demo.script import Script
from dollyd.simulators.demo.stage import Stage, StageError

EXIT_SEEN, EXIT_MISSING, EXIT_INTERRUPTED = 0, 1, 130
TIME_LIMIT_S = 120
"""For the play; it takes about half a minute."""
_REFRESH_S = 0.1
_LAST_LOOKS = 30


async def perform(broker: Broker, *, seed: int, keep: bool) -> int:
    """Play, judge, clear away; gives the exit code. The directory is kept where something was missing."""
    console = Console()
    directory = Path(tempfile.mkdtemp(prefix="dollyd-demo-"))
    code = EXIT_MISSING
    try:
        with _interruptible():
            code = await _perform(Stage(directory, broker, seed), console)
    except asyncio.CancelledError:
        code = EXIT_INTERRUPTED
        console.print("\ninterrupted; nothing is left running")
    finally:
        if keep or code == EXIT_MISSING:
            console.print(f"journal, keys, configuration and logs are kept in {directory}", soft_wrap=True)
        else:
            shutil.rmtree(directory)
    return code


async def _perform(stage: Stage, console: Console) -> int:
    view = View(stage.broker.name)
    display = LiveDisplay(view, console) if console.is_terminal else PlainDisplay(view, console)
    outcome: Seen | str
    try:
        outcome = await _play(stage, display)
    except StageError as error:
        outcome = str(error)
    except TimeoutError:
        outcome = f"it was not over after {TIME_LIMIT_S} s"
    finally:
        await stage.close()
        display.close()
    if isinstance(outcome, Seen):
        return report(judge(outcome), console)
    console.print(f"\nThe demo stopped: {outcome}", style="bold red", highlight=False, soft_wrap=True)
    return EXIT_MISSING


async def _play(stage: Stage, display: Display) -> Seen:
    """All acts, then the evidence. Raises `StageError`, or TimeoutError after the time limit."""
    script = Script(stage, display)
    display.act(display.view.act, display.view.story)
    async with asyncio.timeout(TIME_LIMIT_S):
        await stage.set_up()
        helpers = (asyncio.create_task(script.listener.run()), asyncio.create_task(_keep_showing(script)))
        try:
            daemon_exit = await script.play()
            journal = tuple(_envelopes(stage.journal))
            await _last_records(script, len(journal))
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)
            for helper in helpers:
                if not helper.cancelled():
                    helper.result()  # a bug of ours: let it be seen
        script.show()
    return Seen(
        games=tuple(stage.games),
        received=tuple(script.listener.envelopes),
        damaged=script.listener.damaged,
        journal=journal,
        keys=stage.keys,
        daemon_exit=daemon_exit,
        verified=await stage.verify(),
    )


async def _keep_showing(script: Script) -> None:
    while True:
        script.show()
        await asyncio.sleep(_REFRESH_S)


async def _last_records(script: Script, count: int) -> None:
    """What the daemon sent last may still be on its way; what does not come is missing."""
    for _ in range(_LAST_LOOKS):
        if len(script.listener.records) >= count:
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
