"""Answers to commands: what a command came to, signed by the node that dealt with it.

A flattened JWS (`wire.jws`) of type `dolly-answer/1`, signed with the key that signs the node's records. It
names the command by the digest of its bytes, so it answers this command and no other one.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

from dollyd.wire.command import digest
from dollyd.wire.judgement import Claim, refusal
from dollyd.wire.jws import EnvelopeError, parse_envelope, verify_envelope
from dollyd.wire.key_source import KeySource

ANSWER_TYP = "dolly-answer/1"
ANSWER_VERSION: Final = 1


class Came(Struct, frozen=True):
    """What a command came to. `why` is empty where it was done; `records` followed from it."""

    order: str
    """Empty, as `nonce`, where the command could not be read."""
    nonce: str
    answer: Literal["done", "refused"]
    why: str
    records: list[dict[str, str | int]] = []


class Answer(Came, frozen=True, kw_only=True):
    """What a command came to. `why` is empty where it was done; `records` followed from it.

    It shows that the table's node has said so; what counts is in the records.
    """

    v: Literal[1]
    site: str
    table: str
    node: str
    """Whose key signed it."""
    command: str
    """SHA-256 of the exact bytes of the command that came, hex."""
    utc: str
    """When the answer was given, by the node's clock, which judged whether the command was in time."""
    synchronised: bool
    """Whether that clock was synchronised."""
    error_bound_us: int
    """Largest error of UTC that the time service vouches for; -1 = not known."""


def read_answer(envelope: bytes, site: str, table: str, command: bytes, keys: KeySource | None) -> Answer:
    """The answer of a table to the command with these bytes; `keys` None: its signature is not checked.

    Raises `EnvelopeError`: what `wire.jws` refuses, `payload`, `other` (it answers another command, or for
    another table), `key` (nobody who is trusted has named the key for this node and table).
    """
    parsed = parse_envelope(envelope, ANSWER_TYP)
    try:
        answer = msgspec.json.decode(parsed.payload, type=Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EnvelopeError("payload", str(error)) from error
    if (answer.site, answer.table, answer.command) != (site, table, digest(command)):
        raise EnvelopeError("other", "it answers another command")
    if keys is not None:
        claim = Claim(kid=parsed.kid, node=answer.node, table=table, utc=answer.utc, live=True)
        judged = keys.judge(claim)
        if judged.trusted is None:
            raise EnvelopeError("key", refusal(judged.verdict, parsed.kid))
        verify_envelope(parsed, {parsed.kid: judged.trusted})
    return answer
