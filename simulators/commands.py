"""Commands for TLP/1 devices, generators and scenarios; those of a roulette table are in `__main__`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dollyd.daemon.host.clock import SystemClock
from dollyd.daemon.host.secret_files import write_secret
from dollyd.simulators import scenario as scenarios
from dollyd.simulators.control import PortError, ended_by_signals
from dollyd.simulators.evening import Evening, check
from dollyd.simulators.pty import PtyLink
from dollyd.simulators.single import AsJson, FaultNames, Games, LinkPath, PeriodMs, Seed, run_single
from dollyd.wire.errors import ConfigError

Serial = Annotated[str, typer.Option(help="Serial number that it says in HEL.")]
FirstGame = Annotated[int, typer.Option(min=0, max=9999, help="Number of its first game.")]
Unattended = Annotated[bool, typer.Option(help="Nobody starts its games; give the order `start`.")]
BytesPerS = Annotated[int, typer.Option(min=1, help="How fast it is.")]


def tlp_wheel(
    link: LinkPath,
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    games: Games = None,
    serial: Serial = "SN000123",
    first_game: FirstGame = 1,
    unattended: Unattended = False,
    boule: Annotated[bool, typer.Option(help="A boule bowl of 36 cups instead of a roulette wheel.")] = False,
    layout: Annotated[str, typer.Option(help="A shipped layout, or a file that ends in .toml.")] = "",
) -> None:
    """A roulette wheel or a boule bowl (TLP/1, talker WH). Orders: start, number TEXT."""
    options = _common(period_ms, serial, first_game, unattended)
    options |= {"kind": "BOULE" if boule else "WHEEL", "layout": layout}
    run_single("tlp-wheel", options, link, seed, fault, as_json=as_json, games=games)


def ball_detector(
    link: LinkPath,
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    games: Games = None,
    serial: Serial = "BD000007",
    first_game: FirstGame = 1,
    unattended: Unattended = False,
) -> None:
    """A ball detector with a ball of its own (TLP/1, talker BD). Orders: start."""
    options = _common(period_ms, serial, first_game, unattended)
    run_single("ball-detector", options, link, seed, fault, as_json=as_json, games=games)


def money_wheel(
    link: LinkPath,
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    games: Games = None,
    serial: Serial = "MW000054",
    first_game: FirstGame = 1,
    unattended: Unattended = False,
    sectors: Annotated[int, typer.Option(min=2, help="Sectors of the wheel.")] = 54,
) -> None:
    """A money wheel (TLP/1, talker MW). Orders: start, sector N, touch N (at pass N of the next game)."""
    options = _common(period_ms, serial, first_game, unattended) | {"sectors": sectors}
    run_single("money-wheel", options, link, seed, fault, as_json=as_json, games=games)


def dice_camera(
    link: LinkPath,
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    games: Games = None,
    serial: Serial = "DC000002",
    first_game: FirstGame = 1,
    unattended: Unattended = False,
    dice: Annotated[int, typer.Option(min=1, max=3, help="How many dice lie before it.")] = 2,
) -> None:
    """A camera that reads dice (TLP/1, talker DC). Orders: start, faces N N."""
    options = _common(period_ms, serial, first_game, unattended) | {"dice": dice}
    run_single("dice-camera", options, link, seed, fault, as_json=as_json, games=games)


def console(
    link: LinkPath,
    period_ms: PeriodMs = 500,
    fault: FaultNames = None,
    seed: Seed = 1,
    as_json: AsJson = False,
    serial: Serial = "CN000009",
    badge: Annotated[str, typer.Option(help="Badge that lies on it at power-on.")] = "",
) -> None:
    """A dealer console (TLP/1, talker CN). Orders: key NAME [ROUND], badge ID."""
    options = {"period_ms": period_ms, "serial": serial, "badge": badge}
    run_single("console", options, link, seed, fault, as_json=as_json)


def truerng(
    link: LinkPath, fault: FaultNames = None, seed: Seed = 1, bytes_per_s: BytesPerS = 20_000
) -> None:
    """A TrueRNG random generator: a raw stream of bytes."""
    run_single("truerng", {"bytes_per_s": bytes_per_s}, link, seed, fault)


def onerng(link: LinkPath, fault: FaultNames = None, seed: Seed = 1, bytes_per_s: BytesPerS = 20_000) -> None:
    """A OneRNG random generator: silent until `cmdO`."""
    run_single("onerng", {"bytes_per_s": bytes_per_s}, link, seed, fault)


def scenario(
    file: Annotated[Path, typer.Argument(help="The scenario, see config/examples/scenarios.")],
    directory: Annotated[Path, typer.Option("--dir", help="Where its ports and truth.jsonl are made.")],
    period_ms: Annotated[
        int | None, typer.Option("--period-ms", min=5, help="Another status period than the file's.")
    ] = None,
) -> None:
    """A whole evening at a table, from a file: every device at its port, every order at its time."""
    try:
        evening = scenarios.load(file, period_ms)
        check(evening)
        _write_keys(evening, directory)
        asyncio.run(_play(evening, directory))
    except (ConfigError, PortError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        typer.echo(f"{directory}: {error.strerror}; give a directory that can be written", err=True)
        raise typer.Exit(2) from error


def _write_keys(told: scenarios.Scenario, directory: Path) -> None:
    """The keys of odds boxes, for the `secret_file` of the daemon's configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, device in told.devices.items():
        if device.kind == "odds-box":
            key_file = directory / f"{name}.key"
            key_file.unlink(missing_ok=True)
            write_secret(key_file, device.options["key"].encode())


async def _play(told: scenarios.Scenario, directory: Path) -> None:
    with (directory / "truth.jsonl").open("w", encoding="utf-8", buffering=1) as truth:
        evening = Evening(
            told,
            SystemClock(),
            lambda link: PtyLink(directory / link),
            lambda happened: print(json.dumps(happened), file=truth),
        )
        with ended_by_signals(evening.done):
            await evening.run()


def _common(period_ms: int, serial: str, first_game: int, unattended: bool) -> dict[str, Any]:
    return {
        "period_ms": period_ms,
        "serial": serial,
        "first_game": first_game,
        "attended": not unattended,
    }


def add_to(app: typer.Typer) -> None:
    """Add the commands of this page."""
    app.command("tlp-wheel")(tlp_wheel)
    app.command("ball-detector")(ball_detector)
    app.command("money-wheel")(money_wheel)
    app.command("dice-camera")(dice_camera)
    app.command("console")(console)
    app.command("truerng")(truerng)
    app.command("onerng")(onerng)
    app.command("scenario")(scenario)
