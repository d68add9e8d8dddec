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

from dollyd.client.judgement import Verdict
from dollyd.client.jws import public_jwk
from dollyd.client.trust import NodeKey, OperatorKey, Role, Trust, TrustFile
from dollyd.daemon.core.stamp import NS_PER_S, iso_utc
from dollyd.daemon.errors import ConfigError, SigningError
from dollyd.daemon.signing import Signer, load_signer, new_key
from dollyd.daemon.terminal import say
from dollyd.daemon.trust_file import change_trust, new_trust, own_root, read_public_key, read_trust, roll_root

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
def new(trust: TrustPath, site: Annotated[str, typer.Option(metavar="NAME")], root_key: RootKey) -> None:
    """Make an empty trust file for a site."""
    _told(trust, new_trust(trust, site, _root(root_key), _now()))


@application.command("add-node")
def add_node(
    trust: TrustPath,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")],
    key: PublicKey,
    root_key: RootKey,
    not_before: NotBefore = "",
    not_after: NotAfter = "",
) -> None:
    """Let a key sign the records of a node; a node may have several."""
    added = NodeKey(
        node=node,
        jwk=public_jwk(read_public_key(key)),
        not_before=_utc("--not-before", not_before) or _now(),
        not_after=_utc("--not-after", not_after),
    )
    _change(trust, root_key, lambda file: msgspec.structs.replace(file, nodes=(*file.nodes, added)))


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
) -> None:
    """Say that a key of a node or person may be in wrong hands; what it signed before stays right."""
    revoked = _utc("--at", at) or _now()

    def change(file: TrustFile) -> TrustFile:
        keys = (*file.nodes, *file.operators)
        if kid not in {key.kid for key in keys if not key.revoked}:
            remedy = "give one that `dollyd trust show` tells and that is not revoked"
            raise ConfigError(str(trust), "", f"no key {kid}", remedy)
        changes = {"revoked": revoked, "reason": reason}
        return msgspec.structs.replace(
            file,
            nodes=tuple(msgspec.structs.replace(k, **changes) if k.kid == kid else k for k in file.nodes),
            operators=tuple(
                msgspec.structs.replace(k, **changes) if k.kid == kid else k for k in file.operators
            ),
        )

    _change(trust, root_key, change)


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
