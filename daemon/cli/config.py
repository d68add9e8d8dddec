"""`dollyd config`: what can stand in a configuration."""

from __future__ import annotations

from importlib.resources import files

import typer

from dollyd.daemon.host.terminal import say
from dollyd.daemon.settings.reference import example

application = typer.Typer(help="What can stand in a configuration.", no_args_is_help=True)


@application.command("print")
def print_() -> None:
    """Print a configuration to begin with: every key, its default, its unit and its meaning."""
    say(*example().splitlines())


@application.command("schema")
def schema() -> None:
    """Print the JSON Schema of a configuration, by which editors complete and check dollyd.toml."""
    say(*files("dollyd").joinpath("config", "schemas", "config.json").read_text("utf-8").splitlines())
