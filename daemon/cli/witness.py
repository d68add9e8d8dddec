"""`dollyd witness`: a second box that countersigns checkpoints."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from dollyd.client.stream.given_up import GivenUp
from dollyd.client.witness.book import WitnessBook, WitnessError
from dollyd.client.witness.service import Witness
from dollyd.daemon.cli.given_keys import keys_to_follow
from dollyd.daemon.cli.options import TrustMinVersion, secret_file
from dollyd.daemon.cli.until_signal import until_signal
from dollyd.daemon.host.log import configure_logging
from dollyd.daemon.host.logger import Logger
from dollyd.daemon.keys.signing import load_signer
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.errors import ConfigError
from dollyd.wire.topics import check_name

BOOK = "witness.db"
EXIT_FAILED = 1


def witness(
    broker: Annotated[
        list[str], typer.Option(metavar="HOST:PORT", help="A broker; several are tried in turn.")
    ],
    site: Annotated[str, typer.Option(metavar="SITE", help="The site.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The witness, as in its topic.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The witness's own private key (PEM).")],
    state: Annotated[Path, typer.Option(metavar="DIR", help="Where it remembers what it saw.")],
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="JWKS", help="The nodes' keys (a JWK set).")
    ] = None,
    trust: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or the site's trust file, kept up to date ...")
    ] = None,
    root: Annotated[str, typer.Option(metavar="KID", help="... and the root that it is signed under.")] = "",
    trust_min_version: TrustMinVersion = 0,
    accept_loss: Annotated[
        list[str] | None,
        typer.Option(metavar="CHAIN:FIRST-LAST", help="Go on behind records that nobody has; repeat it."),
    ] = None,
    ca_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: who vouches for the broker.")] = "",
    cert_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: the witness's certificate.")] = "",
    key_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: the key of that certificate.")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Follow all tables, countersign their checkpoints, and tell of histories that were written again.

    Runs until SIGTERM or SIGINT. Exit code 1: it has found a contradiction, now or earlier, or could not
    remember.
    """
    configure_logging(verbose=verbose)
    for option, text in (("--site", site), ("--name", name)):
        if not check_name(text):
            raise ConfigError(option, "", f"{text!r} is no name", "take 1 to 40 of a-z, 0-9 and -")
    mqtt = MqttSettings(
        tuple(broker),
        "",
        ca_file=ca_file or None,
        cert_file=cert_file or None,
        key_file=secret_file("--key-file", key_file),
    )
    try:
        losses = tuple(map(GivenUp.of, accept_loss or ()))
    except ValueError as error:
        remedy = "name what the log tells as history_missing"
        raise ConfigError("--accept-loss", "", str(error), remedy) from error
    nodes = keys_to_follow(keys, trust, root, site, trust_min_version)
    signer = load_signer(key, config_file="--key", key="")
    failure = ""
    with closing(_book(state)) as book:
        try:
            asyncio.run(until_signal(Witness(mqtt, site, name, nodes, book, signer.sign, losses).run()))
        except* WitnessError as group:
            failure = str(group.exceptions[0])
        found = bool(book.contradictions)
    if failure:
        Logger(__name__).critical("stopped_by_failure", error=failure)
    if failure or found:
        raise typer.Exit(EXIT_FAILED)


def _book(state: Path) -> WitnessBook:
    try:
        state.mkdir(parents=True, exist_ok=True)
        return WitnessBook(state / BOOK)
    except (OSError, WitnessError) as error:
        remedy = "name a writable directory that no other witness uses"
        raise ConfigError("--state", "", str(error), remedy) from error
