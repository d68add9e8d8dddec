"""Simulated devices on a pseudo-terminal: `python -m dollyd.simulators --help`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from dollyd.daemon.clock import SystemClock
from dollyd.simulators.control import Bench, PortError
from dollyd.simulators.faults import FAULTS
from dollyd.simulators.line import Line
from dollyd.simulators.odds_box import OddsBox, OddsBoxOptions
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.ss2 import SHORT, Lengths, Ss2Options, Ss2Wheel
from dollyd.simulators.ss2.options import FIRMWARE

app = typer.Typer(
    help="Simulated table devices that speak real bytes on a pseudo-terminal. While one runs, it takes "
    "orders on standard input, a line each: plug, unplug, power-on, power-off, fault NAME, clear NAME, quit; "
    "the wheel also start and number TEXT, the odds box also table N.",
    no_args_is_help=True,
    add_completion=False,
)

LinkPath = Annotated[Path, typer.Option("--link", help="Name of the port to make, e.g. /tmp/wheel.")]
PeriodMs = Annotated[
    int, typer.Option("--period-ms", min=5, help="Status period; less than 500 is a faster device.")
]
FaultNames = Annotated[
    list[str] | None, typer.Option("--fault", help="A fault from the start, see `faults`; may be repeated.")
]
Seed = Annotated[int, typer.Option(help="The same seed plays the same games.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what really happened, one JSON object a line.")]


@app.command("ss2")
def wheel(
    link: LinkPath,
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    pockets: Annotated[int, typer.Option(min=37, max=40, help="37 single zero ... 40 quadruple zero.")] = 37,
    mode: Annotated[
        int, typer.Option(help="Sum of the `*o` mode bits; without 128 it must be polled.")
    ] = 1159,
    port: Annotated[int, typer.Option(min=1, max=3, help="Ports 2 and 3 have no bare number.")] = 1,
    firmware: Annotated[str, typer.Option(help="What it says to *V.")] = FIRMWARE,
    first_counter: Annotated[int, typer.Option(min=1, max=256, help="Game counter of the first game.")] = 1,
    games_per_hour: Annotated[
        int, typer.Option(min=1, help="`*T h`; few of them make the wheel wait.")
    ] = 161,
    extra_modes: Annotated[int, typer.Option(help="`*T g`: 8 no retry after a misfire, 32 state 7.")] = 0,
    bonus_days: Annotated[int, typer.Option(min=0, help="Bonus licence left (mode bit 32768).")] = 999,
    compact: Annotated[bool, typer.Option(help="Short games of about 25 periods.")] = False,
    unattended: Annotated[bool, typer.Option(help="Nobody opens the table or presses start.")] = False,
    games: Annotated[int | None, typer.Option(min=1, help="End after so many games.")] = None,
) -> None:
    """A Cammegh SlingShot 2 roulette wheel."""
    options = Ss2Options(
        period_ms=period_ms,
        firmware=firmware,
        mode=mode,
        pockets=pockets,
        port=port,
        first_counter=first_counter,
        games_per_hour=games_per_hour,
        extra_modes=extra_modes,
        bonus_days=bonus_days,
        attended=not unattended,
        lengths=SHORT if compact else Lengths(),
    )
    asyncio.run(_run_wheel(options, link, seed, fault or [], as_json, games))


@app.command("odds-box")
def odds_box(
    link: LinkPath,
    key_file: Annotated[Path, typer.Option(help="File with the key shared with the host, taken as it is.")],
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    serial: Annotated[str, typer.Option(help="Serial number in HEL and in the proof.")] = "OB000042",
) -> None:
    """A box that draws the odds table of a round (TLP/1, talker OD)."""
    options = OddsBoxOptions(period_ms=period_ms, serial=serial)
    try:
        key = key_file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{key_file}: {error.strerror}", param_hint="--key-file") from error
    asyncio.run(_run_odds_box(options, key, link, seed, fault or [], as_json))


@app.command("faults")
def list_faults() -> None:
    """List every fault: name, device, entries of the fault list, what it does."""
    for name, fault in FAULTS.items():
        entries = " ".join(str(entry) for entry in fault.entries)
        print(f"{name:20} {fault.device:9} {entries:6} {fault.summary}")


async def _run_wheel(
    options: Ss2Options, path: Path, seed: int, faults: list[str], as_json: bool, games: int | None
) -> None:
    clock = SystemClock()
    model = Ss2Wheel(options, Random(seed), clock.stamp().mono_ns)
    bench = Bench(
        model,
        _line(seed),
        PtyLink(path),
        clock,
        {
            "start": lambda _: model.press_start(),
            "number": lambda text: model.will_fall_into(f"{text.strip():>2}"),
        },
    )
    told = 0

    def observe() -> None:
        nonlocal told
        for game in model.played[told:]:
            told += 1
            if as_json:
                _print({name: getattr(game, name) for name in ("counter", "pocket", "outcome", "session")})
        if games is not None and told >= games and model.state != 5:
            bench.done.set()

    bench.device.observe = observe
    await _run(bench, faults)


async def _run_odds_box(
    options: OddsBoxOptions, key: bytes, path: Path, seed: int, faults: list[str], as_json: bool
) -> None:
    clock = SystemClock()
    model = OddsBox(options, key, Random(seed), clock.stamp().mono_ns)
    orders = {"table": lambda text: model.will_draw(int(text))}
    bench = Bench(model, _line(seed), PtyLink(path), clock, orders)
    told = 0

    def observe() -> None:
        nonlocal told
        for drawn in model.drawn[told:]:
            told += 1
            if as_json:
                _print({name: getattr(drawn, name) for name in ("game", "table", "counter", "nonce")})

    bench.device.observe = observe
    await _run(bench, faults)


async def _run(bench: Bench, faults: list[str]) -> None:
    try:
        for name in faults:
            bench.obey(f"fault {name}")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fault") from error
    try:
        await bench.run()
    except PortError as error:
        raise typer.BadParameter(f"cannot make the port: {error}", param_hint="--link") from error


def _line(seed: int) -> Line:
    """A line with dice of its own, so that its faults do not change the games of a seed."""
    return Line(Random(f"line {seed}"))


def _print(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    app()
