"""`dollyd trust`: make, change, show and check the site's trust file.

The root's private key is read from a file, which stays offline; it is never on the command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias, cast, get_args

import msgspec
import typer

from dollyd.daemon.evidence.last_records import Found, named, of_file, of_statements, of_text, of_watermarks
from dollyd.daemon.host.terminal import say
from dollyd.daemon.keys.signing import Signer, load_signer, new_key
from dollyd.daemon.keys.trust_file import (
    change_trust,
    new_trust,
    own_root,
    read_jwks,
    read_public_key,
    read_trust,
    roll_root,
)
from dollyd.wire.errors import ConfigError, SigningError
from dollyd.wire.judgement import Position, Verdict
from dollyd.wire.jws import public_jwk
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.trust import NodeKey, OperatorKey, Role, Trust, TrustFile

EXPIRY_WARNED_DAYS = 30
_NS_PER_DAY = 86_400 * NS_PER_S
ROLES: tuple[Role, ...] = get_args(Role)

application = typer.Typer(help="Make, change, show and check the site's trust file.", no_args_is_help=True)

TrustPath: TypeAlias = Annotated[Path, typer.Argument(metavar="TRUST", help="The trust file.")]
PublicKey: TypeAlias = Annotated[
    Path, typer.Argument(metavar="JWKS", help="The public key, as `dollyd keys show` prints it.")
]
RootKey: TypeAlias = Annotated[
    Path, typer.Option("--root-key", metavar="FILE", help="The root's private key, a PEM file.")
]
NotBefore: TypeAlias = Annotated[
    str,
    typer.Option(metavar="UTC", help="First moment, e.g. 2026-12-01 or 2026-12-01T06:00; now unless given."),
]
TableNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME", help="A table that it may sign for, may be repeated; else any."),
]
RENEW_DAYS_MAX = 36_500
RenewDays: TypeAlias = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=RENEW_DAYS_MAX,
        help="You sign a new version at least so often, and consumers warn where none comes; 0: not stated.",
    ),
]
NO_RECORD = "none"
NotAfter: TypeAlias = Annotated[str, typer.Option(metavar="UTC", help="End; none unless given.")]


# --- commands --------------------------------------------------------------------------------------


@application.command("new-root")
def new_root(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the key goes.")]) -> None:
    """Make a root key, which only its owner may read; keep it offline, and let everybody pin its kid."""
    try:
        root = new_key(file)
    except SigningError as error:
        raise ConfigError(str(file), "", str(error), "choose another path") from error
    say(f"{file}: made, kid {root.kid}")


@application.command("new")
def new(
    trust: TrustPath,
    site: Annotated[str, typer.Option(metavar="NAME")],
    root_key: RootKey,
    renew_days: RenewDays = 0,
) -> None:
    """Make an empty trust file for a site."""
    _told(trust, new_trust(trust, site, _root(root_key), _now(), renew_days))


@application.command("init")
def init(
    site: Annotated[str, typer.Option(metavar="NAME", help="The site.")],
    node: Annotated[str, typer.Option(metavar="NAME", help="The node, as in its configuration.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="A directory for the three files; made if need be.")
    ],
    table: TableNames = None,
    renew_days: RenewDays = 0,
) -> None:
    """Make root, trust file and signing key for a site of one node: to be done before its first start."""
    root, key, trust = (out / name for name in ("root.pem", "signing.pem", "trust.json"))
    for file in (root, key, trust):
        if file.exists():
            raise ConfigError(
                str(file), "", "exists already", "name another directory, or change that trust file"
            )
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        signer, own = new_key(root), new_key(key)
    except (OSError, SigningError) as error:
        raise ConfigError(str(out), "--out", str(error), "name a directory that can be written") from error
    now = _now()
    first = NodeKey(node=node, jwk=own.jwk, tables=tuple(table or ()), not_before=now)
    made = new_trust(trust, site, signer, now, renew_days, nodes=(first,))
    _told(trust, made)
    say(f"{root}: the root's key. Take it off this machine, and let consumers pin its kid {signer.kid}")
    say(f"{key}: the key of node {node}, kid {own.kid}")
    say("For the configuration, with the paths where you install the two:")
    say("", "[signing]", f'key = "{key}"', f'trust = "{trust}"', f'root = "{signer.kid}"')


@application.command("renew")
def renew(
    trust: TrustPath,
    root_key: RootKey,
    renew_days: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=RENEW_DAYS_MAX, help="From now on; 0: not stated.")
    ] = None,
) -> None:
    """Sign the same again as a new version of today, so that consumers see that nothing is held back."""
    days = {} if renew_days is None else {"renew_days": renew_days}
    _change(trust, root_key, lambda file: msgspec.structs.replace(file, **days))


@application.command("add-node")
def add_node(
    trust: TrustPath,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")],
    key: PublicKey,
    root_key: RootKey,
    table: TableNames = None,
    not_before: NotBefore = "",
    not_after: NotAfter = "",
) -> None:
    """Let a key sign the records of a node; a node may have several.

    Of a key that stands there already: move its beginning back to --not-before, for records that were signed
    before the trust file was made, or bind it to other tables, or give it another end.
    """
    added = NodeKey(
        node=node,
        jwk=public_jwk(read_public_key(key)),
        tables=tuple(table or ()),
        not_before=_utc("--not-before", not_before) or _now(),
        not_after=_utc("--not-after", not_after),
    )
    _change(trust, root_key, lambda file: _with_node(file, trust, added, moved=bool(not_before)))


@application.command("add-operator")
def add_operator(
    trust: TrustPath,
    operator: Annotated[str, typer.Argument(metavar="ID", help="How the person is called in records.")],
    key: PublicKey,
    root_key: RootKey,
    role: Annotated[list[str], typer.Option(metavar="ROLE", help=f"{', '.join(ROLES)}; may be repeated.")],
    not_before: NotBefore = "",
    not_after: NotAfter = "",
) -> None:
    """Let a person's key sign commands in these roles."""
    if wrong := sorted(set(role) - set(ROLES)):
        raise ConfigError("dollyd", "--role", f"no role {wrong[0]!r}", f"choose among {', '.join(ROLES)}")
    added = OperatorKey(
        id=operator,
        jwk=public_jwk(read_public_key(key)),
        roles=cast("tuple[Role, ...]", tuple(role)),
        not_before=_utc("--not-before", not_before) or _now(),
        not_after=_utc("--not-after", not_after),
    )
    _change(trust, root_key, lambda file: msgspec.structs.replace(file, operators=(*file.operators, added)))


@application.command("revoke")
def revoke(
    trust: TrustPath,
    kid: Annotated[str, typer.Argument(metavar="KID", help="Thumbprint of the key.")],
    root_key: RootKey,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for those who read the file.")],
    at: Annotated[str, typer.Option(metavar="UTC", help="From when on; now unless given.")] = "",
    journal: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A journal: of each chain the last record of the key before that."),
    ] = None,
    evidence: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="An evidence file, likewise; of older nights too: they stay good."),
    ] = None,
    watermarks: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A consumer's file of watermarks: what it has counts."),
    ] = None,
    witness: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Statements of witnesses, one a line: what they saw counts ..."),
    ] = None,
    witness_keys: Annotated[
        Path | None, typer.Option(metavar="JWKS", help="... and the keys of the witnesses.")
    ] = None,
    last: Annotated[
        list[str] | None,
        typer.Option(metavar="CHAIN:SEQ:HEAD", help="A record up to which the key counts; none: no record."),
    ] = None,
) -> None:
    """Say that a key of a node or person may be in wrong hands, and which of its records count.

    A thief dates back. So name by the other options up to where each chain is known to be genuine: behind
    that nothing of the key counts, whatever its date. A key that is revoked already is told more in this way.
    """
    known = read_trust(trust, own_root(trust))
    before = _utc("--at", at) or _revoked_at(known, kid) or _now()
    found = [
        one for file in (*(journal or ()), *(evidence or ())) for one in of_file(file, kid, known, before)
    ]
    found += [one for file in watermarks or () for one in of_watermarks(file)]
    if witness and witness_keys is None:
        raise ConfigError("--witness-keys", "", "missing", "give the keys of the witnesses")
    seen_by = read_jwks(witness_keys) if witness_keys is not None else {}
    found += [one for file in witness or () for one in of_statements(file, seen_by)]
    found += [of_text(text) for text in last or () if text != NO_RECORD]
    given = any((journal, evidence, watermarks, witness, last))
    positions = named(found) if given else None
    _change(trust, root_key, lambda file: _revoked(file, trust, kid, before, reason, positions))
    _tell_last(kid, found, positions)


@application.command("roll")
def roll(
    trust: TrustPath,
    root_key: RootKey,
    new_root_key: Annotated[
        Path, typer.Option(metavar="FILE", help="The new root's private key, of `dollyd trust new-root`.")
    ],
) -> None:
    """Go over to a new root; those who pin the old one follow its announcement, which the file carries."""
    _told(trust, roll_root(trust, _root(root_key), _root(new_root_key), _now()))


@application.command("show")
def show(trust: TrustPath) -> None:
    """Print what a trust file says. It is checked against its own root only: see `check`."""
    shown = read_trust(trust, own_root(trust))
    _told(trust, shown)
    now = _now()
    for node in shown.nodes.values():
        say(f"  node {node.node}, key {node.kid}: {_standing(node, now)}")
    for person in shown.operators.values():
        say(f"  operator {person.id} ({', '.join(person.roles)}), key {person.kid}: {_standing(person, now)}")
    for older in shown.roots[:-1]:
        say(f"  older root {older}")


@application.command("check")
def check(
    trust: TrustPath,
    root: Annotated[str, typer.Option(metavar="KID", help="Thumbprint of the root that is pinned.")],
) -> None:
    """Check a trust file against the pinned root, and warn of keys that expire within 30 days."""
    checked = read_trust(trust, root)
    _told(trust, checked)
    if checked.root != root:
        say(f"  the pinned root was replaced: pin {checked.root}")
    now, soon = _now(), iso_utc(time.time_ns() + EXPIRY_WARNED_DAYS * _NS_PER_DAY)
    for who, key in _named_keys(checked):
        if key.verdict(now) is Verdict.VALID and key.verdict(soon) is Verdict.EXPIRED:
            say(f"  WARNING: {who}, key {key.kid}: expires at {key.not_after}")
    say("good")


# --- what they share -------------------------------------------------------------------------------


def _named_keys(trust: Trust) -> list[tuple[str, NodeKey | OperatorKey]]:
    nodes: list[tuple[str, NodeKey | OperatorKey]] = [(f"node {key.node}", key) for key in trust.file.nodes]
    return nodes + [(f"operator {key.id}", key) for key in trust.file.operators]


def _standing(key: NodeKey | OperatorKey, now: str) -> str:
    end = f", until {key.not_after}" if key.not_after else ""
    revoked = f", revoked {key.revoked} ({key.reason})" if key.revoked else ""
    return f"{key.verdict(now)}, from {key.not_before}{end}{revoked}"


def _with_node(file: TrustFile, path: Path, added: NodeKey, *, moved: bool) -> TrustFile:
    kid = added.kid
    known = next((key for key in file.nodes if key.kid == kid), None)
    if known is None:
        return msgspec.structs.replace(file, nodes=(*file.nodes, added))
    problem = ""
    if known.node != added.node:
        problem = f"key {kid} is that of node {known.node}"
    elif moved and added.not_before > known.not_before:
        problem = f"key {kid} counts from {known.not_before} on, and records may rest on that"
    elif not (moved or added.tables or added.not_after):
        problem = f"key {kid} stands there already, from {known.not_before} on"
    if problem:
        remedy = "give an earlier --not-before to move its beginning back, or another key"
        raise ConfigError(str(path), "", problem, remedy)
    changed = msgspec.structs.replace(
        known,
        not_before=added.not_before if moved else known.not_before,
        tables=added.tables or known.tables,
        not_after=added.not_after or known.not_after,
    )
    return msgspec.structs.replace(
        file, nodes=tuple(changed if key.kid == kid else key for key in file.nodes)
    )


def _revoked_at(trust: Trust, kid: str) -> str:
    """When a key was revoked already, empty where it is not."""
    key = trust.nodes.get(kid)
    return key.revoked if key is not None else ""


def _revoked(
    file: TrustFile, path: Path, kid: str, at: str, reason: str, last: tuple[Position, ...] | None
) -> TrustFile:
    nodes = {key.kid: key for key in file.nodes if not key.revoked or last is not None}
    people = {key.kid: key for key in file.operators if not key.revoked and last is None}
    if kid not in nodes.keys() | people.keys():
        remedy = "give one that `dollyd trust show` tells: a node's, or a person's that is not revoked"
        raise ConfigError(str(path), "", f"no key {kid}", remedy)
    said = {"revoked": at, "reason": reason}
    if kid in nodes:
        more = {(one.chain, one.seq): one for one in (*(nodes[kid].last or ()), *(last or ()))}
        new = nodes[kid].last if last is None else tuple(more[place] for place in sorted(more))
        nodes[kid] = msgspec.structs.replace(nodes[kid], **said, last=new)
    else:
        people[kid] = msgspec.structs.replace(people[kid], **said)
    return msgspec.structs.replace(
        file,
        nodes=tuple(nodes.get(key.kid, key) for key in file.nodes),
        operators=tuple(people.get(key.kid, key) for key in file.operators),
    )


def _tell_last(kid: str, found: list[Found], positions: tuple[Position, ...] | None) -> None:
    if positions is None:
        say(f"  WARNING: no record of key {kid} is named as the last: who reads files believes their dates.")
        say("  Run this again with --journal, --evidence, --watermarks, --witness or --last.")
        return
    for one in found:
        at = one.positions[-1]
        table, utc = (f"table {one.table}, " if one.table else ""), (f" of {one.utc}" if one.utc else "")
        say(f"  {table}chain {at.chain}: counts up to record {at.seq}{utc}, digest {at.head}")
    if not found:
        say(f"  no record of key {kid} counts")
    say("  In other chains nothing of it counts. Who had it may have written to the node's journal too:")
    say("  compare with what consumers and witnesses have.")


def _told(path: Path, trust: Trust) -> None:
    say(f"{path}: site {trust.site}, version {trust.version} of {trust.file.issued}, root {trust.root}")


def _change(path: Path, root_key: Path, change: Callable[[TrustFile], TrustFile]) -> None:
    _told(path, change_trust(path, _root(root_key), _now(), change))


def _root(path: Path) -> Signer:
    return load_signer(path, config_file=str(path), key="")


def _now() -> str:
    return iso_utc(time.time_ns())


def _utc(option: str, text: str) -> str:
    """The time that an operator wrote, in the one form; UTC unless it names another zone."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        remedy = "give one like 2026-12-01 or 2026-12-01T06:00"
        raise ConfigError("dollyd", option, f"{text!r} is no time", remedy) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return iso_utc(int(moment.timestamp()) * NS_PER_S)
