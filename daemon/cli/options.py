"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from dollyd.daemon.host.secret_files import read_secret

ConfigFile: TypeAlias = Annotated[
    Path,
    # Whoever cannot read it is told so as of any other file: in one line, with exit 78.
    typer.Option("--config", metavar="F", help="The configuration (TOML).", readable=False),
]
TrustMinVersion: TypeAlias = Annotated[
    int,
    typer.Option(
        "--trust-min-version",
        metavar="N",
        min=0,
        help="Refuse a trust file of a lower version: what `dollyd trust show` tells at the site.",
    ),
]

MaxBytes: TypeAlias = Annotated[
    int, typer.Option("--max-bytes", metavar="N", min=1, help="What a compressed file may unpack to.")
]


def secret_file(option: str, name: str) -> str | None:
    """The name of a secret file that an option gives, None where it gives none.

    Raises `ConfigError` as `read_secret`.
    """
    if name:
        read_secret(Path(name), config_file=option, key="", remedy="name an existing file or leave it out")
    return name or None
