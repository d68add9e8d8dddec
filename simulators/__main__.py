"""Simulated devices on a pseudo-terminal: `python -m dollyd.simulators --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dollyd.simulators.commands import add_to
from dollyd.simulators.conformance.run import conformance
from dollyd.simulators.faults import FAULTS
from dollyd.simulators.single import AsJson, FaultNames, Games, LinkPath, PeriodMs, Seed, run_single
from dollyd.simulators.ss2.options import FIRMWARE

app = typer.Typer(
    help="Simulated table devices that speak real bytes on a pseudo-terminal. While one runs, it takes "
    "orders on standard input, a line each: plug, unplug, power-on, power-off, fault NAME, clear NAME, quit; "
    "and those that its own help names.",
    no_args_is_help=True,
    add_completion=False,
)


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
    games: Games = None,
) -> None:
    """A Cammegh SlingShot 2 roulette wheel. Orders: start, number TEXT."""
    options = {
        "period_ms": period_ms,
        "firmware": firmware,
        "mode": mode,
        "pockets": pockets,
        "port": port,
        "first_counter": first_counter,
        "games_per_hour": games_per_hour,
        "extra_modes": extra_modes,
        "bonus_days": bonus_days,
        "attended": not unattended,
        "compact": compact,
    }
    run_single("ss2", options, link, seed, fault, as_json=as_json, games=games)


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
    """A box that draws the odds table of a round (TLP/1, talker OD). Orders: table N."""
    try:
        key = key_file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{key_file}: {error.strerror}", param_hint="--key-file") from error
    options = {"period_ms": period_ms, "serial": serial, "key": key}
    run_single("odds-box", options, link, seed, fault, as_json=as_json)


@app.command("faults")
def list_faults() -> None:
    """List every fault: name, device, entries of the fault list, what it does."""
    for name, fault in FAULTS.items():
        entries = " ".join(str(entry) for entry in fault.entries)
        print(f"{name:20} {fault.device:9} {entries:6} {fault.summary}")


app.command("conformance")(conformance)
add_to(app)

if __name__ == "__main__":
    app()
