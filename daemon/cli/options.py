"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ConfigFile: TypeAlias = Annotated[
    Path, typer.Option("--config", metavar="F", help="The configuration (TOML).")
]
