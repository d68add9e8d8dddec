"""The trust file of a site: whose keys may sign what, from when to when, under the site's root key.

A flattened JWS of type `dolly-trust/1`, made offline and public. Consumers and daemons pin the root and
nothing else. Every change is a new version; a lower one than was seen before is refused (`newer`).

A root is rolled by an announcement of type `dolly-root/1` that the old root signs. The file carries the
announcements of all rolls, oldest first, so whoever pins an older root still finds the way to the one that
signed. There is no way back to an older root, and none that helps where a root was stolen: whoever has it
may announce another one. Then the new root is pinned by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Meta, Struct

from dollyd.wire.judgement import Claim, Judgement, Position, Verdict
from dollyd.wire.jws import EnvelopeError, Keys, key_of_jwk, parse_envelope, thumbprint, verify_envelope
from dollyd.wire.topics import check_name

TRUST_TYP = "dolly-trust/1"
ROOT_TYP = "dolly-root/1"
TRUST_VERSION: Final = 1
"""`v` of the payloads of both."""

_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", re.ASCII)
Utc: TypeAlias = str
"""UTC as records have it, always 30 characters: the order of the texts is the order of the times."""
Role: TypeAlias = Literal["dealer", "inspector", "pit-boss", "technician"]
Jwk: TypeAlias = dict[str, str]

_T = TypeVar("_T", bound=Struct)


# --- the payloads --------------------------------------------------------------------------------


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of everything in the file; what is not known here is refused, not skipped."""


class _Key(_Part, frozen=True, kw_only=True):
    """A public key and when it may sign. What is empty is left out of the file."""

    jwk: Jwk
    not_before: Utc
    """First moment at which it may sign."""
    not_after: Utc = ""
    """First moment at which it may not sign any more, empty for none."""
    revoked: Utc = ""
    """From this moment on it may be in wrong hands."""
    reason: str = ""
    """Why it was revoked."""

    @property
    def kid(self) -> str:
        """The key's RFC 7638 thumbprint."""
        return thumbprint(key_of_jwk(self.jwk))

    def verdict(self, utc: str) -> Verdict:
        """What a signature made at `utc` is worth."""
        if self.revoked and utc >= self.revoked:
            return Verdict.REVOKED
        if utc < self.not_before:
            return Verdict.NOT_YET
        return Verdict.EXPIRED if self.not_after and utc >= self.not_after else Verdict.VALID


class NodeKey(_Key, frozen=True, kw_only=True):
    """A key of a node, for records."""

    node: str
    tables: tuple[str, ...] = ()
    """The tables that it may sign for, empty for any."""
    last: tuple[Position, ...] | None = None
    """Of a revoked key the records up to which it counts; none: it counts nowhere. The highest of a chain is
    the last one that counts; lower ones prove what comes before them without it. Left out: nobody has said,
    and the records' own time decides for those who read files."""

    def judged(self, claim: Claim, *, own: bool) -> tuple[Verdict, Position | None]:
        """What a record is worth that this key signed (`own`), or that one signed which this key announced.

        With it the record to which its chain must lead, see `Judgement.until`.
        """
        until = None
        if self.revoked:
            ahead = (at for at in self.last or () if at.chain == claim.chain and at.seq >= claim.seq)
            until = min(ahead, key=lambda at: at.seq, default=None)
            other = until is not None and until.seq == claim.seq and claim.digest not in ("", until.head)
            covered = until is not None and not other
            by_date_alone = self.last is None and own and not claim.live
            if claim.utc >= self.revoked or not (covered or by_date_alone):
                return Verdict.REVOKED, None
        return self.verdict(claim.utc) if own else Verdict.VALID, until


class OperatorKey(_Key, frozen=True, kw_only=True):
    """A key of a person, for commands."""

    id: str
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]


class TrustFile(_Part, frozen=True, kw_only=True):
    """The payload, as it is signed."""

    v: Literal[1]
    site: str
    version: Annotated[int, Meta(ge=1)]
    issued: Utc
    root: Jwk
    """The key that signs the file; a consumer pins this one, or an older one that leads here."""
    nodes: tuple[NodeKey, ...]
    operators: tuple[OperatorKey, ...]
    rolls: tuple[str, ...] = ()
    """Announcements of new roots, envelopes as text, oldest first."""
    renew_days: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """The site signs a new version at least so often; 0: it does not say."""


class RootRoll(_Part, frozen=True, kw_only=True):
    """The announcement of a new root, signed by the old one."""

    v: Literal[1]
    site: str
    issued: Utc
    old: Jwk
    new: Jwk


# --- what was verified ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trust:
    """A trust file whose signature, and way from the pinned root, were verified."""

    file: TrustFile
    envelope: bytes
    """The exact bytes, to be passed on."""
    pinned: str
    """`kid` of the root that was pinned."""
    roots: tuple[str, ...]
    """`kid` of all roots since the first roll; the last one signed the file."""
    nodes: Mapping[str, NodeKey]
    """By `kid`."""
    operators: Mapping[str, OperatorKey]
    """By `kid`."""
    keys: Keys
    """Public keys of the nodes."""

    @property
    def site(self) -> str:
        """The site."""
        return self.file.site

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.file.version

    @property
    def root(self) -> str:
        """`kid` of the root that signed the file."""
        return self.roots[-1]

    def overdue(self, utc: str) -> bool:
        """Whether at `utc` a newer version should be there, by what this one says."""
        days = self.file.renew_days
        due = datetime.fromisoformat(self.file.issued) + timedelta(days=days)
        return days > 0 and datetime.fromisoformat(utc) > due

    def node_keys(self, node: str = "") -> Keys:
        """Public keys by `kid`, of one node or of all, whatever their verdict is."""
        return {kid: self.keys[kid] for kid, key in self.nodes.items() if node in ("", key.node)}

    def judge(self, claim: Claim, /) -> Judgement:
        """What a record's signature is worth.

        Of a key that the file names it says so itself. One that it does not name, and that was announced in
        the chain, is as good as the nearest one above it that it names: who has stolen a key may have
        announced another one before that was known, whatever its records say of their time.

        The time of a record is the claim of its box: who has stolen a key can date records back. So of a
        revoked key counts what is dated before its revocation and lies at or before a record that the
        revocation names. Where it says nothing of that (`NodeKey.last`), a reader of files can but believe
        the date, and who hears a record live (`Claim.live`) takes nothing more.
        """
        key = self.keys.get(claim.kid) or claim.announced.get(claim.kid)
        if not is_utc(claim.utc):
            return Judgement(Verdict.NO_TIME, key)
        above = claim.announced.up_from(claim.kid)
        named = next((self.nodes[kid] for kid in above if kid in self.nodes), None)
        if named is None:
            return Judgement(Verdict.UNKNOWN if key is None else Verdict.VALID, key)
        if named.node != claim.node:
            return Judgement(Verdict.UNKNOWN, key)
        if named.tables and claim.table and claim.table not in named.tables:
            return Judgement(Verdict.OTHER_TABLE, key)
        verdict, until = named.judged(claim, own=claim.kid in self.nodes)
        return Judgement(verdict, key, until)

    def operator(self, kid: str) -> OperatorKey | None:
        """The person who has this key, None for a stranger; `verdict(utc)` of it says what it is worth."""
        return self.operators.get(kid)


def load_trust(data: bytes, root: Ed25519PublicKey | str, min_version: int = 0) -> Trust:
    """Read and verify a trust file against the pinned root, a key or its `kid`.

    `min_version`: what was seen before, or told on another way; a lower version is a `rollback`.

    Raises `EnvelopeError`: what `wire.jws` refuses, `payload` (unknown, missing or wrong members), `root`
    (no way from the pinned root to the one that signed), `roll`, `name`, `time`, `twice`, `last`.
    """
    pinned = root if isinstance(root, str) else thumbprint(root)
    envelope = parse_envelope(data, TRUST_TYP)
    file = _decode(envelope.payload, TrustFile)
    signer = key_of_jwk(file.root)
    verify_envelope(envelope, {thumbprint(signer): signer})
    roots = _roots(file)
    if pinned not in roots:
        why = f"signed under root {roots[-1]}, to which the pinned {pinned} does not lead"
        raise EnvelopeError("root", why)
    for name in (file.site, *(key.node for key in file.nodes), *(key.id for key in file.operators)):
        if not check_name(name):
            raise EnvelopeError("name", f"{name!r} is not 1 to 40 of a-z, 0-9 and -")
    _check_times(file)
    kids = [roots[-1], *(key.kid for key in (*file.nodes, *file.operators))]
    if len(set(kids)) != len(kids):
        raise EnvelopeError("twice", "one key stands there twice")
    _check_bounds(file)
    if file.version < min_version:
        raise EnvelopeError("rollback", f"version {file.version}; at least version {min_version} is demanded")
    nodes = {key.kid: key for key in file.nodes}
    operators = {key.kid: key for key in file.operators}
    keys = {kid: key_of_jwk(key.jwk) for kid, key in nodes.items()}
    return Trust(file, data, pinned, roots, nodes, operators, keys)


def newer(old: Trust | None, new: Trust) -> Trust:
    """`new`, where it may follow `old`, the one that was known. The same file again is no error.

    Raises `EnvelopeError`: `site` (another site), `rollback` (a lower version, or one under a root that was
    replaced), `version` (another file of the same version).
    """
    if old is None or old.envelope == new.envelope:
        return new
    if new.site != old.site:
        raise EnvelopeError("site", f"of site {new.site}; {old.site} is known")
    if new.version < old.version:
        raise EnvelopeError("rollback", f"version {new.version}; version {old.version} is known already")
    if old.root not in new.roots:
        raise EnvelopeError("rollback", f"signed under root {new.root}, which {old.root} has replaced")
    if new.version == old.version:
        raise EnvelopeError("version", f"another file of version {new.version} is known")
    return new


def _decode(payload: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(payload, type=kind)
    except msgspec.ValidationError as error:
        raise EnvelopeError("payload", str(error)) from error


def _roots(file: TrustFile) -> tuple[str, ...]:
    """Follow the announcements to the root that signed the file."""
    roots: list[str] = []
    for text in file.rolls:
        envelope = parse_envelope(text.encode(), ROOT_TYP)
        roll = _decode(envelope.payload, RootRoll)
        old, new = key_of_jwk(roll.old), key_of_jwk(roll.new)
        verify_envelope(envelope, {thumbprint(old): old})
        roots = roots or [thumbprint(old)]
        if roll.site != file.site or roots[-1] != thumbprint(old):
            raise EnvelopeError("roll", "an announcement does not follow from the one before it")
        roots.append(thumbprint(new))
    signer = thumbprint(key_of_jwk(file.root))
    roots = roots or [signer]
    if roots[-1] != signer or len(set(roots)) != len(roots):
        raise EnvelopeError("roll", "the announcements do not lead to the root that signed")
    return tuple(roots)


def _check_times(file: TrustFile) -> None:
    times: Iterable[str] = (
        time
        for key in (*file.nodes, *file.operators)
        for time in (key.not_before, key.not_after, key.revoked)
        if time
    )
    for time in (file.issued, *times):
        if not is_utc(time):
            raise EnvelopeError("time", f"{time!r} is no UTC time with nanoseconds")


def _check_bounds(file: TrustFile) -> None:
    """To what keys of nodes are bound: tables, and the records up to which a revoked one counts."""
    for key in file.nodes:
        for name in (*key.tables, *(at.chain for at in key.last or ())):
            if not check_name(name):
                raise EnvelopeError("name", f"{name!r} is not 1 to 40 of a-z, 0-9 and -")
        if key.last is not None and not key.revoked:
            raise EnvelopeError("last", f"key {key.kid} is not revoked, but its last records are named")
        places = {(at.chain, at.seq) for at in key.last or ()}
        if len(places) != len(key.last or ()):
            raise EnvelopeError("twice", f"of key {key.kid} one record is named twice")


def is_utc(text: str) -> bool:
    """Whether it is a time, in the one form that records have."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return _UTC.fullmatch(text) is not None
