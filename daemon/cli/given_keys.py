"""The keys that a person gives to a command: by hand, or as a trust file under a pinned root."""

from __future__ import annotations

from pathlib import Path

from dollyd.client.stream.site_trust import SiteTrust
from dollyd.daemon.keys.trust_file import read_jwks, read_trust
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import EnvelopeError, Keys
from dollyd.wire.trust import Trust


def keys_for_verification(
    jwks: Path | None, trust: Path | None, root: str, min_version: int = 0
) -> Keys | Trust | None:
    """What `dollyd verify` takes as keys: a JWK set, a trust file under a pinned root, or nothing.

    Raises `ConfigError`, also where both are given, or a trust file without its root.
    """
    _check_options(jwks, trust, root, min_version)
    if trust is not None:
        return read_trust(trust, root, min_version=min_version)
    return read_jwks(jwks) if jwks is not None else None


def keys_to_follow(
    jwks: Path | None, trust: Path | None, root: str, site: str, min_version: int = 0
) -> Keys | SiteTrust:
    """What a consumer takes as keys while it runs: a JWK set, or the site's trust file as it changes.

    Newer versions are written to the file; it need not be there yet. Raises `ConfigError`, as
    `keys_for_verification` does, and where nothing is given.
    """
    _check_options(jwks, trust, root, min_version)
    if jwks is not None:
        return read_jwks(jwks)
    if trust is None:
        raise ConfigError("--keys", "", "missing, and no --trust either", "name the keys of the site's nodes")
    try:
        return SiteTrust(root, site, trust, min_version=min_version)
    except OSError as error:
        raise ConfigError(str(trust), "", str(error.strerror), "give the path of a readable file") from error
    except EnvelopeError as error:
        remedy = "give the site's trust file, and the root that it is signed under"
        raise ConfigError(str(trust), "", str(error), remedy) from error


def _check_options(jwks: Path | None, trust: Path | None, root: str, min_version: int) -> None:
    if min_version and trust is None:
        raise ConfigError("--trust-min-version", "", "given without --trust", "give --trust and --root too")
    if jwks is not None and trust is not None:
        raise ConfigError(str(trust), "--trust", "given beside --keys", "give one of the two")
    if (trust is None) != (not root):
        raise ConfigError(str(trust or root), "--root", "goes with --trust", "give both or neither")
