"""What a record says of how its round ended, as digests: so that a correction can be held against it.

Digests are over the values, not over the bytes of a record: members in the order of their names, no spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.record import FINAL_KINDS, Kind

_DIGEST_BYTES = 24
_ENCODER = msgspec.json.Encoder(order="sorted")


class Told(Struct, array_like=True, frozen=True, gc=False):
    """How a round ended, by a final record or by a correction of one; of a session its stakes alone."""

    kind: str = ""
    """`result` or `void`; of a correction what counts after it."""
    finding: bytes = b""
    """Digest of kind and outcome, or of kind, rule and stake policy."""
    played: bytes = b""
    """Digest of setting, gaming date and odds."""
    stakes: bytes = b""
    """Digest of the limits, empty where the record names none."""
    memory: str = ""
    """What the game remembers after this outcome, as `memory_text` has it; empty for nothing, or a void."""
    corrects: int = 0
    """Of a correction: the record that it supersedes ..."""
    before: bytes = b""
    """... the digest of the finding that it takes away ..."""
    before_kind: str = ""
    """... and its kind."""
    element: str = ""
    policy: str = ""
    """Of a void: what it says of the stakes."""
    game: str = ""


class _Finding(Struct):
    kind: str = ""
    outcome: dict[str, Any] | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    stake_policy: str | UnsetType = UNSET


class _Played(Struct, kw_only=True):
    setting: dict[str, Any] | UnsetType = UNSET
    gaming_date: str | UnsetType = UNSET
    stakes: dict[str, Any] | UnsetType = UNSET
    odds: dict[str, Any] | UnsetType = UNSET


class _Correction(_Played, kw_only=True):
    corrects: int
    before: _Finding
    after: _Finding
    element: str = ""


_FINDING = msgspec.json.Decoder(_Finding)
_CORRECTION = msgspec.json.Decoder(_Correction)
_PLAYED = msgspec.json.Decoder(_Played)


def _final(kind: str, body: msgspec.Raw) -> Told:
    finding = _FINDING.decode(body)
    finding.kind = kind
    return _told(finding, _PLAYED.decode(body))


def _correction(_kind: str, body: msgspec.Raw) -> Told:
    correction = _CORRECTION.decode(body)
    told = _told(correction.after, correction)
    return msgspec.structs.replace(
        told,
        corrects=correction.corrects,
        before=_digest_of(correction.before),
        before_kind=correction.before.kind,
        element=correction.element,
    )


def _session(_kind: str, body: msgspec.Raw) -> Told:
    return Told(stakes=_stakes(_PLAYED.decode(body)))


_READ: dict[str, Callable[[str, msgspec.Raw], Told]] = {
    **dict.fromkeys(FINAL_KINDS, _final),
    Kind.CORRECTION: _correction,
    Kind.SESSION: _session,
}


def told_by(kind: str, body: msgspec.Raw) -> Told | None:
    """What the body of a record says; None where its kind says nothing of a round's end.

    Raises `msgspec.ValidationError` where the body has not the form of its kind.
    """
    read = _READ.get(kind)
    return read(kind, body) if read is not None else None


def memory_text(memory: tuple[tuple[str, str], ...]) -> str:
    """What a game remembers (`games.spec.Memory`), as one text."""
    return "\n".join(f"{name}={value}" for name, value in memory)


def memory_of(text: str) -> tuple[tuple[str, str], ...]:
    """The memory of a text that `memory_text` made."""
    return tuple(
        (name, value) for name, _, value in (line.partition("=") for line in text.split("\n") if line)
    )


def _told(finding: _Finding, played: _Played) -> Told:
    setting = played.setting if isinstance(played.setting, dict) else {}
    return Told(
        kind=finding.kind,
        finding=_digest_of(finding),
        played=_digest([setting, played.gaming_date or "", played.odds or {}]),
        stakes=_stakes(played),
        memory=_memory(setting.get("game"), finding.outcome),
        policy=finding.stake_policy or "",
        game=str(setting.get("game", "")),
    )


def _stakes(played: _Played) -> bytes:
    return _digest(played.stakes) if isinstance(played.stakes, dict) else b""


def _digest_of(finding: _Finding) -> bytes:
    """A result is its outcome, a void its rule and what becomes of the stakes; whatever else it says, too."""
    if finding.kind == Kind.RESULT:
        return _digest(["result", finding.outcome or {}])
    return _digest([finding.kind, finding.rule or "", finding.stake_policy or ""])


def _digest(value: Any) -> bytes:
    return blake2b(_ENCODER.encode(value), digest_size=_DIGEST_BYTES).digest()


def _memory(game: Any, outcome: Any) -> str:
    known = GAMES.get(game) if isinstance(game, str) else None
    if known is None or not isinstance(outcome, dict):
        return ""
    try:
        return memory_text(known.after(outcome))
    except (KeyError, TypeError, ValueError):  # no outcome of this game: settlement refuses it
        return ""
