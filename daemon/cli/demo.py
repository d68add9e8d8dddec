"""`dollyd demo`: the main job on simulated devices; its code is with the simulators, in no package."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from dollyd.wire.errors import ConfigError

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def demo(context: typer.Context) -> None:
    """Show a roulette table at work, or with --all every game: simulated devices, the real daemon, proof."""
    if importlib.util.find_spec("dollyd.simulators") is None:
        raise ConfigError(
            "dollyd", "demo", "this installation has no simulators", "run it in a source checkout"
        )
    os.execv(sys.executable, [sys.executable, "-m", "dollyd.simulators.demo", *context.args])  # noqa: S606
