"""`dollyd broker-setup`: configuration, access list and certificates of a site's broker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from dollyd.daemon.brokers.acl import ROLES
from dollyd.daemon.brokers.authority import Authority, Pair
from dollyd.daemon.brokers.site_setup import (
    AUTHORITY,
    BROKER,
    NODE_LINES,
    PORT,
    Node,
    Site,
    new_pair,
    pair_names,
    plain_files,
)
from dollyd.daemon.host.secret_files import read_secret, write_secret
from dollyd.daemon.host.terminal import say
from dollyd.daemon.link.address import parse_broker
from dollyd.daemon.settings.load import Settings, load
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import cure, read_file
from dollyd.wire.topics import NO_TABLES, check_name

WHO = "dollyd broker-setup"
DAYS = 825
"""What TLS libraries take at most of a certificate, by habit of the public web; renewed long before."""
DAYS_MAX = 3650


def broker_setup(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for all files; made if need be.")],
    config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="F", help="A node's configuration: site, node, tables and brokers; may be repeated ..."
        ),
    ] = None,
    site: Annotated[str, typer.Option(metavar="NAME", help="... or the site,")] = "",
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TABLE,...", help="its nodes; the first publishes the trust file; repeat it,"
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="and a name or address of the broker's machine; may be repeated."),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE",
            help=f"A user: {', '.join(ROLES)}; may be repeated. One of each unless given.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=DAYS_MAX, help="How long certificates are good for.")
    ] = DAYS,
    add: Annotated[
        bool,
        typer.Option("--add", help="Keep the certificates that are in DIR, make those that are missing."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is in DIR: nobody comes in with the old ones.")
    ] = False,
) -> None:
    """Make what a site's Mosquitto and its users need, and tell what to copy where.

    Configuration and access list as shipped, for the users of this site; a certificate authority; a
    certificate and a key for the broker and for each user. Nothing that is there is overwritten without --add
    or --force. To renew a certificate, remove it and its key and use --add. Whoever is no longer named has no
    rights any more.
    """
    wanted = _site([load(path) for path in config or []], site, node or [], host or [], user or [])
    there = [path for path in _paths(out, wanted) if path.exists()]
    if there and not (add or force):
        remedy = "name another folder; or --add for what is missing, --force to make all anew"
        raise ConfigError(WHO, "", f"{there[0]} exists already", remedy)
    if add and force:
        raise ConfigError(WHO, "--force", "given together with --add", "give one of the two")
    now = datetime.now(UTC)
    kept = _kept(out, wanted) if add else {}
    try:
        authority = Authority(kept[AUTHORITY]) if add else Authority.new(f"{wanted.name} site CA", now)
        made = {
            name: new_pair(wanted, name, authority, now, now + timedelta(days=days))
            for name in pair_names(wanted)
            if name not in kept
        }
    except ValueError as error:
        what = f"{out / AUTHORITY}.crt and .key" if add else "--host"
        remedy = "use the authority as it was made, or --force" if add else "give names or addresses"
        raise ConfigError(WHO, what, str(error), remedy) from error
    if not add:
        made = {AUTHORITY: authority.pair, **made}
    _write(out, plain_files(wanted), made)
    _tell(out, wanted, made)


# --- what is wanted --------------------------------------------------------------------------------


def _site(
    configured: list[Settings], name: str, nodes: list[str], hosts: list[str], users: list[str]
) -> Site:
    names = {settings.site for settings in configured} | ({name} if name else set())
    if len(names) != 1:
        problem = f"{', '.join(sorted(names))}: one broker's users are of one site" if names else "missing"
        raise ConfigError(WHO, "--site", problem, "give --config of its nodes, or --site and --node")
    (site,) = names
    found = [
        Node(one.node, tuple(one.tables), publishes_trust=one.signing.publish_trust) for one in configured
    ]
    found += [_node(text, first=not configured and index == 0) for index, text in enumerate(nodes)]
    if not found:
        raise ConfigError(WHO, "--node", "missing", "give each node with its tables, like box1=r1,r2")
    if sum(node.publishes_trust for node in found) > 1:
        remedy = "write `publish_trust = false` below [signing] of all but one"
        raise ConfigError(WHO, "--config", "two nodes publish the site's trust file", remedy)
    people = dict(map(_user, users)) if users else {role.example: kind for kind, role in ROLES.items()}
    everybody = [site, *(node.name for node in found), *people, *(t for node in found for t in node.tables)]
    for one in everybody:
        if not check_name(one) or one in NO_TABLES:
            raise ConfigError(WHO, "", f"{one!r} is no name", "take 1 to 40 of a-z, 0-9 and -")
    once = [AUTHORITY, BROKER, *(node.name for node in found), *people]
    if twice := [one for one in once if once.count(one) > 1]:
        raise ConfigError(WHO, "", f"{twice[0]!r} is the name of two", "give each user a name of its own")
    addresses = hosts or [parse_broker(text).host for one in configured for text in one.mqtt.brokers]
    if not addresses:
        raise ConfigError(WHO, "--host", "missing", "name the broker's machine as its users will")
    return Site(site, tuple(found), people, tuple(dict.fromkeys(addresses)))


def _node(text: str, *, first: bool) -> Node:
    name, _, tables = text.partition("=")
    if not tables:
        raise ConfigError(WHO, "--node", f"{text!r} names no table", "give one like box1=r1,r2")
    return Node(name, tuple(tables.split(",")), publishes_trust=first)


def _user(text: str) -> tuple[str, str]:
    name, _, role = text.partition("=")
    if role not in ROLES:
        remedy = f"give NAME=ROLE with one of {', '.join(ROLES)}"
        raise ConfigError(WHO, "--user", f"{text!r} names no role", remedy)
    return name, role


# --- files -----------------------------------------------------------------------------------------


def _paths(out: Path, site: Site) -> Iterator[Path]:
    for name in (AUTHORITY, *pair_names(site)):
        yield from (out / f"{name}.crt", out / f"{name}.key")
    yield from (out / name for name in plain_files(site))


def _kept(out: Path, site: Site) -> dict[str, Pair]:
    """The pairs that are in the folder; the authority's must be."""
    kept = {}
    for name in (AUTHORITY, *pair_names(site)):
        certificate, key = out / f"{name}.crt", out / f"{name}.key"
        if not certificate.exists() and not key.exists() and name != AUTHORITY:
            continue
        remedy = "bring the authority's files here" if name == AUTHORITY else f"remove both files of {name}"
        try:
            kept[name] = Pair(
                read_file(certificate), read_secret(key, config_file=WHO, key="--add", remedy=remedy)
            )
        except OSError as error:
            raise ConfigError(
                WHO, "--add", f"{certificate}: {error.strerror}", cure(error, remedy)
            ) from error
    return kept


def _write(out: Path, plain: dict[str, bytes], pairs: dict[str, Pair]) -> None:
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in {
            **plain,
            **{f"{name}.crt": pair.certificate for name, pair in pairs.items()},
        }.items():
            (out / name).write_bytes(text)
        for name, pair in pairs.items():
            (out / f"{name}.key").unlink(missing_ok=True)
            write_secret(out / f"{name}.key", pair.key)
    except OSError as error:
        remedy = cure(error, "name a folder that can be written")
        raise ConfigError(WHO, str(error.filename or out), error.strerror or str(error), remedy) from error


def _tell(out: Path, site: Site, made: dict[str, Pair]) -> None:
    """What was made, and what to do with it."""
    host = site.hosts[0]
    say(f"{out}: site {site.name}; certificates made for {', '.join(name for name in made) or 'nobody'}")
    say(f"On the broker's machine, as root: sh {out}/install-broker.sh")
    for node in site.nodes:
        say(f"On node {node.name}, as root: sh {out}/install-{node.name}.sh; then in its configuration:")
        say(*(f"  {line}" for line in NODE_LINES.format(host=host).splitlines()))
    for name, role in site.users.items():
        say(f"To {name} ({ROLES[role].about}): {AUTHORITY}.crt, {name}.crt, {name}.key")
    one = next(iter(site.users), site.nodes[0].name)
    pair = f"--cafile {AUTHORITY}.crt --cert {one}.crt --key {one}.key"
    say(f"They come with an id of their own: mosquitto_sub -i {one} -h {host} -p {PORT} {pair} ...")
    lost = {path.stem for path in out.glob("*.crt")} - {AUTHORITY, *pair_names(site)}
    for name in sorted(lost):
        say(f"{name} has a certificate, and no rights any more")
    say(f"Keep {out}/{AUTHORITY}.key away from the broker: whoever has it can be anybody.")
