"""What a record says of how its round ended, as digests: so that a correction can be held against it.

Digests are over the values, not over the bytes of a record: members in the order of their names, no spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from dollyd.daemon.core.games import GAMES
from dollyd.wire.record import FINAL_KINDS, Kind

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


_ANY = msgspec.Raw(b"{}")


class _Finding(Struct):
    kind: str = ""
    outcome: msgspec.Raw = _ANY
    rule: str = ""
    stake_policy: str = ""


class _Final(Struct):
    """A final record, or what a correction says of its round."""

    kind: str = ""
    outcome: msgspec.Raw = _ANY
    rule: str = ""
    stake_policy: str = ""
    setting: msgspec.Raw = _ANY
    gaming_date: str = ""
    stakes: msgspec.Raw = _ANY
    odds: msgspec.Raw = _ANY


class _Correction(Struct, kw_only=True):
    corrects: int
    before: _Finding
    after: _Finding
    element: str = ""


_FINAL = msgspec.json.Decoder(_Final)
_CORRECTION = msgspec.json.Decoder(_Correction)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def _final(kind: str, body: msgspec.Raw) -> Told:
    final = _FINAL.decode(body)
    return _told(_Finding(kind, final.outcome, final.rule, final.stake_policy), final)


def _correction(_kind: str, body: msgspec.Raw) -> Told:
    correction = _CORRECTION.decode(body)
    return msgspec.structs.replace(
        _told(correction.after, _FINAL.decode(body)),
        corrects=correction.corrects,
        before=_digest_of(correction.before),
        before_kind=correction.before.kind,
        element=correction.element,
    )


def _session(_kind: str, body: msgspec.Raw) -> Told:
    return Told(stakes=_stakes(bytes(_FINAL.decode(body).stakes)))


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


def _told(finding: _Finding, final: _Final) -> Told:
    setting = bytes(final.setting)
    game = _game(setting)
    return Told(
        kind=finding.kind,
        finding=_digest_of(finding),
        played=_played(setting, final.gaming_date, bytes(final.odds)),
        stakes=_stakes(bytes(final.stakes)),
        memory=_memory(game, bytes(finding.outcome)),
        policy=finding.stake_policy,
        game=game,
    )


def _digest_of(finding: _Finding) -> bytes:
    """A result is its outcome, a void its rule and what becomes of the stakes."""
    if finding.kind == Kind.RESULT:
        return _outcome(bytes(finding.outcome))
    return _digest([finding.kind, finding.rule, finding.stake_policy])


# Most rounds are played by the same setting and end as another one did.


@lru_cache(maxsize=64)
def _game(setting: bytes) -> str:
    return str(_OBJECT.decode(setting).get("game", ""))


@lru_cache(maxsize=64)
def _played(setting: bytes, gaming_date: str, odds: bytes) -> bytes:
    return _digest([_OBJECT.decode(setting), gaming_date, _OBJECT.decode(odds)])


@lru_cache(maxsize=64)
def _stakes(stakes: bytes) -> bytes:
    limits = _OBJECT.decode(stakes)
    return _digest(limits) if limits else b""


@lru_cache(maxsize=1024)
def _outcome(outcome: bytes) -> bytes:
    return _digest(["result", _OBJECT.decode(outcome)])


def _digest(value: Any) -> bytes:
    return blake2b(_ENCODER.encode(value), digest_size=_DIGEST_BYTES).digest()


@lru_cache(maxsize=1024)
def _memory(game: str, outcome: bytes) -> str:
    known = GAMES.get(game)
    if known is None:
        return ""
    try:
        return memory_text(known.after(_OBJECT.decode(outcome)))
    except (KeyError, TypeError, ValueError):  # a void; or no outcome of this game: settlement refuses it
        return ""
