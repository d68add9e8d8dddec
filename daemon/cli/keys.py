"""`dollyd keys`: make and show the node's signing key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.host.terminal import say, say_json
from dollyd.daemon.keys.signing import load_signer, new_key
from dollyd.wire.errors import ConfigError, SigningError

HELP = """Make and show the node's signing key.

To replace the key in use: make a new one, let it in with `dollyd trust add-node`, name it as
`signing.next_key`, and send SIGHUP to the daemon. When every table has told its `rotated` record, the new key
becomes `signing.key`.
"""

application = typer.Typer(help=HELP, no_args_is_help=True)

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The private key, a PEM file.")]


@application.command("new")
def new(file: KeyFile) -> None:
    """Make an Ed25519 key that only its owner may read; never overwrites one."""
    try:
        signer = new_key(file)
    except SigningError as error:
        raise ConfigError(str(file), "", str(error), "choose another path") from error
    say(f"{file}: made, kid {signer.kid}")


@application.command("show")
def show(file: KeyFile) -> None:
    """Print the public key as a JWK set, for those who verify."""
    signer = load_signer(file, config_file=str(file), key="")
    say_json({"keys": [signer.jwk]}, indent=2)
