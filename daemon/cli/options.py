"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ConfigFile: TypeAlias = Annotated[
    Path,
    # Whoever cannot read it is told so as of any other file: in one line, with exit 78.
    typer.Option("--config", metavar="F", help="The configuration (TOML).", readable=False),
]
