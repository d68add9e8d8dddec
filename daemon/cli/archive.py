"""`dollyd archive`: every signed record of a site, in PostgreSQL or SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from dollyd.client.archive.importing import Import, import_file
from dollyd.client.archive.losses import NoLossError, accept_loss
from dollyd.client.archive.service import Archive
from dollyd.client.archive.sqlite import SqliteStore
from dollyd.client.archive.store import SchemaError, Store, StoreError
from dollyd.client.proof.sources import SourceError
from dollyd.client.proof.unpack import UNPACKED_MAX_BYTES
from dollyd.daemon.cli.given_keys import keys_for_verification, keys_to_follow
from dollyd.daemon.cli.options import MaxBytes, TrustMinVersion, secret_file
from dollyd.daemon.cli.until_signal import until_signal
from dollyd.daemon.host.log import configure_logging
from dollyd.daemon.host.terminal import say
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import Keys
from dollyd.wire.topics import check_name
from dollyd.wire.trust import Trust

EXIT_REFUSED = 1
_ADDRESSES = ("postgresql://", "postgres://")

application = typer.Typer(
    invoke_without_command=True, help="Keep every signed record of a site in PostgreSQL or SQLite."
)

Database: TypeAlias = Annotated[
    str, typer.Option("--database", metavar="ADDRESS", help="postgresql://..., or a file (SQLite).")
]


@application.callback()
def archive(
    context: typer.Context,
    database: Database = "",
    site: Annotated[str, typer.Option(metavar="SITE", help="The site.")] = "",
    broker: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A broker; several are tried in turn.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="This instance, as in its topics.")] = "archive",
    shared: Annotated[
        str, typer.Option(metavar="GROUP", help="Share the stream with all instances of this group.")
    ] = "",
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="JWKS", help="The nodes' keys (a JWK set).")
    ] = None,
    trust: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or the site's trust file, kept up to date ...")
    ] = None,
    root: Annotated[str, typer.Option(metavar="KID", help="... and the root that it is signed under.")] = "",
    trust_min_version: TrustMinVersion = 0,
    import_: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Archive a journal or evidence file; end.")
    ] = None,
    max_bytes: MaxBytes = UNPACKED_MAX_BYTES,
    ca_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: who vouches for the broker.")] = "",
    cert_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: the archive's certificate.")] = "",
    key_file: Annotated[str, typer.Option(metavar="FILE", help="TLS: the key of that certificate.")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Archive all tables of a site; until SIGTERM or SIGINT, or with --import the records of a file.

    The schema is made and brought forward at the start. Passwords: in the environment (PGPASSWORD) or in
    ~/.pgpass, never in the address. Exit code 1: not all records of the file could be trusted.
    """
    if context.invoked_subcommand is not None:
        return
    configure_logging(verbose=verbose)
    for option, text in (("--site", site), ("--name", name), ("--shared", shared or "none")):
        if not check_name(text):
            raise ConfigError(option, "", f"{text!r} is no name", "take 1 to 40 of a-z, 0-9 and -")
    if import_ is not None:
        nodes = _nodes(keys, trust, root, trust_min_version)
        _migrate(database)
        _print(_import(import_, database, site, nodes, max_bytes))
        return
    follow = keys_to_follow(keys, trust, root, site, trust_min_version)
    _migrate(database)
    if not broker:
        raise ConfigError("--broker", "", "missing, and no --import either", "name a broker, host:port")
    mqtt = MqttSettings(
        tuple(broker),
        "",
        ca_file=ca_file or None,
        cert_file=cert_file or None,
        key_file=secret_file("--key-file", key_file),
    )
    asyncio.run(until_signal(Archive(mqtt, site, name, follow, _opener(database), group=shared).run()))


@application.command("migrate")
def migrate(database: Database) -> None:
    """Bring the schema of a data base to the newest version, and tell the steps."""
    steps = _migrate(database)
    say(*(steps or ["the schema is the newest one"]))


@application.command("accept")
def accept(
    chain: Annotated[str, typer.Argument(metavar="CHAIN", help="The chain, 32 characters of hex.")],
    database: Database = "",
) -> None:
    """Take a chain that does not follow the one before it of its table: the box was replaced."""
    try:
        with closing(_opener(database)()) as store:
            taken = store.accept(chain)
    except StoreError as error:
        raise ConfigError("--database", "", str(error), "name a data base that is there") from error
    if not taken:
        raise ConfigError(
            "CHAIN", "", f"no chain {chain!r} is refused for that", "name one of `--import`'s list"
        )
    say(f"chain {chain} is accepted")


@application.command("accept-loss")
def accept_records_lost(
    chain: Annotated[str, typer.Argument(metavar="CHAIN", help="The chain, 32 characters of hex.")],
    upto: Annotated[int, typer.Option("--upto", metavar="SEQ", help="The last record of the first hole.")],
    database: Database = "",
) -> None:
    """Go on behind records that nobody has any more; what was given up stays written in `losses`."""
    configure_logging(verbose=False)
    try:
        with closing(_opener(database)()) as store:
            loss = accept_loss(store, chain, upto)
    except StoreError as error:
        raise ConfigError("--database", "", str(error), "name a data base that is there") from error
    except NoLossError as error:
        remedy = "name what the log tells as history_missing, and nothing else"
        raise ConfigError("dollyd archive accept-loss", chain, str(error), remedy) from error
    say(f"records {loss.first} to {loss.last} of table {loss.table}, chain {chain} are given up for lost")


def _nodes(keys: Path | None, trust: Path | None, root: str, min_version: int) -> Keys | Trust:
    nodes = keys_for_verification(keys, trust, root, min_version)
    if not isinstance(nodes, Trust | Mapping):
        raise ConfigError("--keys", "", "missing, and no --trust either", "name the keys of the site's nodes")
    return nodes


def _opener(database: str) -> Callable[[], Store]:
    if not database:
        raise ConfigError("--database", "", "missing", "give postgresql://... or the name of a file")
    if not database.startswith(_ADDRESSES):
        return lambda: SqliteStore(Path(database))
    try:
        from dollyd.client.archive.postgres import PostgresStore  # noqa: PLC0415  its library is an extra
    except ImportError as error:
        remedy = "install it: pip install 'dollyd[postgresql]'"
        raise ConfigError("--database", "", f"PostgreSQL needs psycopg ({error})", remedy) from error
    return lambda: PostgresStore(database)


def _migrate(database: str) -> list[str]:
    try:
        with closing(_opener(database)()) as store:
            return store.migrate()
    except (StoreError, SchemaError) as error:
        remedy = "name a data base that is there and that is ours"
        raise ConfigError("--database", "", " ".join(str(error).split()), remedy) from error


def _import(path: Path, database: str, site: str, nodes: Keys | Trust, max_bytes: int) -> Import:
    try:
        with closing(_opener(database)()) as store:
            return import_file(path, store, site, nodes, max_bytes)
    except (SourceError, StoreError) as error:
        remedy = "give a journal or an evidence file, and a data base that is there; import again"
        raise ConfigError("--import", "", str(error), remedy) from error


def _print(done: Import) -> None:
    say(f"{done.records} records, {done.new} of them new")
    for chain in done.chains:
        whole = f"whole from {chain.begins} to {chain.complete_to}"
        missing = f", more up to {chain.tip}" if chain.tip > chain.complete_to else ""
        lost = f", but for {chain.lost} given up for lost" if chain.lost else ""
        say(f"table {chain.table}, chain {chain.chain}: {chain.broken or whole + lost + missing}")
    if done.refused:
        say("refused: " + ", ".join(f"{count} ({reason})" for reason, count in done.refused.items()))
        raise typer.Exit(EXIT_REFUSED)
