"""The trust file on a disk: read it, change it, sign it anew. What it means stands in `wire.trust`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.daemon.keys.signing import Signer
from dollyd.wire.decoding import from_json
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import cure, open_file, replace_file
from dollyd.wire.jws import EnvelopeError, Keys, keys_of_jwks, parse_envelope
from dollyd.wire.trust import (
    ROOT_TYP,
    TRUST_TYP,
    TRUST_VERSION,
    NodeKey,
    RootRoll,
    Trust,
    TrustFile,
    load_trust,
)

_FILE_MAX_BYTES = 1 << 20
"""As long as an envelope may be; a site of 200 nodes and 2,000 people needs 730 kB."""


def read_trust(path: Path, root: str, file: str = "", key: str = "", *, min_version: int = 0) -> Trust:
    """Read a trust file and verify it against the root's `kid`. Raises `ConfigError`.

    `file` and `key` say where the path was configured; `min_version` as for `load_trust`.
    """
    data = _read(path, file, key)
    try:
        return load_trust(data, root, min_version)
    except EnvelopeError as error:
        problem = f"{path}: {error}" if file else str(error)
        remedy = "give the site's trust file, and the root that it is signed under"
        raise ConfigError(file or str(path), key, problem, remedy) from error


def own_root(path: Path) -> str:
    """The root that a trust file itself says it is signed under, for those who only look. `ConfigError`."""
    try:
        return parse_envelope(_read(path), TRUST_TYP).kid
    except EnvelopeError as error:
        raise ConfigError(str(path), "", str(error), "give a trust file") from error


def new_trust(
    path: Path, site: str, root: Signer, issued: str, renew_days: int = 0, nodes: tuple[NodeKey, ...] = ()
) -> Trust:
    """Make the first trust file of a site. Raises `ConfigError`; nothing is overwritten."""
    if path.exists():
        raise ConfigError(str(path), "", "exists already", "name another file, or change this one")
    first = TrustFile(
        v=TRUST_VERSION,
        site=site,
        version=1,
        issued=issued,
        root=root.jwk,
        nodes=nodes,
        operators=(),
        renew_days=renew_days,
    )
    return _write(path, first, root)


def change_trust(path: Path, root: Signer, issued: str, change: Callable[[TrustFile], TrustFile]) -> Trust:
    """Change a trust file that `root` has signed: a new version, signed and on the disk when this returns.

    Raises `ConfigError` where the file is not that of `root`, or the change makes no good file.
    """
    old = read_trust(path, root.kid)
    if old.root != root.kid:
        raise ConfigError(str(path), "", f"signed under root {old.root}", "give that root's key")
    return _write(path, _next_version(change(old.file), issued), root)


def roll_root(path: Path, old: Signer, new: Signer, issued: str) -> Trust:
    """Go over to a new root: it signs the file, which carries the old root's announcement. `ConfigError`."""
    trust = read_trust(path, old.kid)
    if trust.root != old.kid:
        raise ConfigError(str(path), "", f"signed under root {trust.root}", "give that root's key as the old")
    roll = RootRoll(v=TRUST_VERSION, site=trust.site, issued=issued, old=old.jwk, new=new.jwk)
    announcement = old.sign(msgspec.json.encode(roll), ROOT_TYP).decode("ascii")
    rolls = (*trust.file.rolls, announcement)
    return _write(
        path, _next_version(msgspec.structs.replace(trust.file, root=new.jwk, rolls=rolls), issued), new
    )


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The one key of a JWK, or of the JWK set that `dollyd keys show` prints. Raises `ConfigError`."""
    keys = list(read_jwks(path).values())
    if len(keys) != 1:
        raise ConfigError(
            str(path), "keys", f"{len(keys)} keys", "give a file with the one key that is meant"
        )
    return keys[0]


def read_jwks(path: Path) -> Keys:
    """Public keys of a JWK set, or of a single JWK. Raises `ConfigError`."""
    try:
        tree = from_json(_read(path), dict[str, msgspec.Raw])
        jwks = (
            from_json(tree["keys"], list[dict[str, str]])
            if "keys" in tree
            else [{name: from_json(value, str) for name, value in tree.items()}]
        )
        return keys_of_jwks(jwks)
    except (msgspec.DecodeError, EnvelopeError) as error:
        remedy = "give the JWK set that `dollyd keys show` prints"
        raise ConfigError(str(path), "keys", str(error), remedy) from error


def _next_version(file: TrustFile, issued: str) -> TrustFile:
    return msgspec.structs.replace(file, version=file.version + 1, issued=issued)


def _write(path: Path, file: TrustFile, root: Signer) -> Trust:
    """Sign and replace the file as a whole; what a consumer would refuse is not written."""
    data = root.sign(msgspec.json.encode(file), TRUST_TYP)
    try:
        trust = load_trust(data, root.kid)
    except EnvelopeError as error:
        raise ConfigError(
            str(path), "", str(error), "correct what was given; the file is unchanged"
        ) from error
    try:
        replace_file(path, data)
    except OSError as error:
        remedy = "name a file in a writable directory"
        raise ConfigError(str(path), "", f"cannot be written: {error.strerror}", remedy) from error
    return trust


def _read(path: Path, file: str = "", key: str = "") -> bytes:
    try:
        with open_file(path) if file else path.open("rb") as source:  # a command may be given a pipe
            return source.read(_FILE_MAX_BYTES + 1)
    except OSError as error:
        problem = f"{path}: {error.strerror}" if file else str(error.strerror)
        remedy = cure(error, "give the path of a readable file")
        raise ConfigError(file or str(path), key, problem, remedy) from error
