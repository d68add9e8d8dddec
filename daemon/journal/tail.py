"""How a chain ends: all that a restart needs to know of one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from dollyd.daemon.core.bound import DEVICE_CHANGED
from dollyd.daemon.core.odds import DRAWN_LATER, REFUSED, counter_told, odds_told_later
from dollyd.daemon.core.void_rules import INSPECTED_AFTER
from dollyd.daemon.journal.entry import ENTRY, Entry, entry_of, payload_of
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Kind, Moment

RESULTS_KEPT = 20
"""Results that a tail holds, for the displays."""
FINALS_LOOKED_AT = 100
"""Rounds among which they are looked for: there may be voids between them."""
INCIDENTS_LOOKED_AT = 1_000
"""Incidents after the last round with an odds table among which a later draw is looked for."""

Read: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""A query and its values, to all its rows."""

BY_CONFIGURATION = "configuration"
"""Who opens and closes a table where no person does: it is configured, or is not any more."""


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device as the chain has seen it last."""

    identity: dict[str, str]
    game: str = ""
    """The device's name of its last game in a record."""
    utc: str = ""
    """Time of that record."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What a restart needs to know of one table. Payloads are parsed records."""

    chain: str
    seq: int
    prev: str
    """SHA-256 of the last envelope's exact bytes, hex: the next record's `prev`."""
    kid: str
    """The key that signed the last record."""
    last_utc: str
    """Time of the last record ..."""
    last_mono_ns: int
    """... by the monotonic clock ..."""
    last_boot: str
    """... of this boot."""
    last_round: int
    """The highest round number used, 0 before the first."""
    open_round: int | None
    """The round that was opened and has no final record."""
    unresolved: bool
    """The open round is recorded as unresolved."""
    session: dict[str, Any] | None
    """Payload of the last `session` record."""
    inspection: str
    """The rule of the last void that asks for an inspection which has not been recorded, empty for none."""
    results: tuple[dict[str, Any], ...]
    """Payloads of the last results as they count, corrected, oldest first, at most `RESULTS_KEPT`."""
    finals: int = 0
    """Rounds with a final record."""
    checkpoint: Entry | None = None
    """The last checkpoint."""
    closed_before: bool = False
    """This chain has no `session` record, and people had closed the table in the one before."""
    devices: dict[str, KnownDevice] = field(default_factory=dict)
    """What the last records say of the devices of the table, by name."""
    doubt: dict[str, Any] | None = None
    """Payload of the `unresolved` record of the open round, with the odds table that later incidents tell."""
    odds_counter: int = -1
    """Counter of the odds box at the last draw that a record tells of, -1 where none does."""

    @property
    def session_open(self) -> bool:
        """Whether the table was open for play at the last record."""
        return self.session is not None and self.session["body"]["event"] != "closed"


def read_tail(read: Read, table: str) -> Tail | None:
    """How the chain of `table` that goes on ends; None where it has none."""
    rows = read("SELECT id FROM chain WHERE tbl = ? ORDER BY id DESC LIMIT 1", table)
    if not rows:
        return None
    chain = int(rows[0][0])
    last = entry_of(read(ENTRY + "WHERE chain.id = ? ORDER BY entry.seq DESC LIMIT 1", chain)[0])
    last_round = _number(
        read,
        "SELECT max((SELECT ifnull(max(round), 0) FROM entry WHERE chain = ?1 AND kind = 'round'),"
        " (SELECT ifnull(max(round), 0) FROM entry WHERE chain = ?1 AND final = 1))",
        chain,
    )
    closed = read("SELECT 1 FROM entry WHERE chain = ? AND round = ? AND final = 1", chain, last_round)
    open_round = last_round if last_round and not closed else None
    doubt = _unresolved(read, chain, open_round) if open_round is not None else None
    checkpoint = _last_checkpoint(read, chain)
    session = _last_session(read, chain)
    time = payload_of(last.envelope)["time"]
    return Tail(
        chain=last.chain,
        seq=last.seq,
        prev=sha256(last.envelope).hexdigest(),
        kid=parse_envelope(last.envelope).kid,
        last_utc=time["utc"],
        last_mono_ns=time["monotonic_ns"],
        last_boot=time["boot"],
        last_round=last_round,
        open_round=open_round,
        unresolved=doubt is not None,
        session=session,
        closed_before=session is None and _closed_before(read, chain, table),
        inspection=_inspection(read, chain, last_round) or _device_to_inspect(read, chain),
        results=_results(read, chain),
        finals=_finals(read, chain, checkpoint),
        checkpoint=checkpoint,
        devices=_devices(read, chain),
        doubt=doubt,
        odds_counter=_odds_counter(read, chain),
    )


def _unresolved(read: Read, chain: int, round_number: int) -> dict[str, Any] | None:
    # From the record that opened the round on, which is near the end of the chain.
    rows = read(
        "SELECT kind, envelope FROM entry"
        " WHERE chain = ?1 AND round = ?2 AND kind IN ('unresolved', 'incident')"
        " AND seq >= (SELECT seq FROM entry WHERE chain = ?1 AND round = ?2 AND kind = 'round') ORDER BY seq",
        chain,
        round_number,
    )
    doubt: dict[str, Any] | None = None
    for kind, envelope in rows:
        payload = payload_of(envelope)
        if kind == Kind.UNRESOLVED:
            doubt = payload
        elif doubt is not None and payload["body"].get("what") == REFUSED:
            doubt["body"].pop("odds", None)
        elif doubt is not None and payload["body"].get("what") == DRAWN_LATER:
            time = payload["time"]
            drawn = Moment(utc=time["utc"], monotonic_ns=time["monotonic_ns"])
            doubt["body"]["odds"] = msgspec.to_builtins(odds_told_later(payload["body"], drawn))
    return doubt


def _odds_counter(read: Read, chain: int) -> int:
    # Newest first. A correction is left out: it names the draw of an earlier round.
    rounds = read(
        "SELECT seq, envelope FROM entry WHERE chain = ? AND kind IN ('result', 'void', 'unresolved')"
        " ORDER BY seq DESC LIMIT ?",
        chain,
        FINALS_LOOKED_AT,
    )
    counters = ((seq, counter_told(payload_of(envelope)["body"])) for seq, envelope in rounds)
    since, newest = next(((seq, count) for seq, count in counters if count is not None), (0, -1))
    since = since or (rounds[-1][0] if rounds else 0)
    incidents = read(
        "SELECT envelope FROM entry WHERE chain = ? AND kind = 'incident' AND seq > ?"
        " ORDER BY seq DESC LIMIT ?",
        chain,
        since,
        INCIDENTS_LOOKED_AT,
    )
    told = (counter_told(payload_of(envelope)["body"]) for (envelope,) in incidents)
    return next((count for count in told if count is not None), newest)


def _last_session(read: Read, chain: int) -> dict[str, Any] | None:
    rows = read(
        "SELECT envelope FROM entry WHERE chain = ? AND kind = 'session' ORDER BY seq DESC LIMIT 1", chain
    )
    rows = rows or read("SELECT session FROM pruned WHERE chain = ? AND session IS NOT NULL", chain)
    return payload_of(rows[0][0]) if rows else None


def _closed_before(read: Read, chain: int, table: str) -> bool:
    # The newest chain of the table that says anything: between may be some whose keys were lost at once.
    for (earlier,) in read(
        "SELECT id FROM chain WHERE tbl = ? AND id < ? ORDER BY id DESC LIMIT 100", table, chain
    ):
        session = _last_session(read, int(earlier))
        if session is not None:
            return bool(session["body"]["event"] == "closed" and session["body"]["by"] != BY_CONFIGURATION)
    return False


def _last_checkpoint(read: Read, chain: int) -> Entry | None:
    rows = read(
        ENTRY + "WHERE chain.id = ? AND entry.kind = 'checkpoint' ORDER BY entry.seq DESC LIMIT 1", chain
    )
    return entry_of(rows[0]) if rows else None


def _finals(read: Read, chain: int, checkpoint: Entry | None) -> int:
    # What the last checkpoint says and what came after: earlier records may have been pruned.
    query = "SELECT count(*) FROM entry WHERE chain = ? AND final = 1"
    if checkpoint is None:
        return _number(read, query, chain)
    told = int(payload_of(checkpoint.envelope)["body"]["finals"])
    return told + _number(read, query + " AND seq > ?", chain, checkpoint.seq)


def _devices(read: Read, chain: int) -> dict[str, KnownDevice]:
    """From the last record with evidence on; what people have accepted since is told by incidents."""
    rows = read(
        "SELECT seq, envelope FROM entry WHERE chain = ? AND kind IN ('result', 'void', 'unresolved')"
        " ORDER BY seq DESC LIMIT 1",
        chain,
    )
    known: dict[str, KnownDevice] = {}
    if rows:
        payload = payload_of(rows[0][1])
        evidence = payload["body"].get("evidence", {})
        games = {witness["device"]: witness["game"] for witness in evidence.get("witnesses", ())}
        for device in evidence.get("devices", ()):
            game = games.get(device["name"], "")
            known[device["name"]] = KnownDevice(device["identity"], game, payload["time"]["utc"])
    told = ("device-ready", DEVICE_CHANGED)
    for body in _incidents(read, chain, rows[0][0] if rows else 0):
        if body["what"] in told and "device" in body:
            known[body["device"]] = KnownDevice(dict(body.get("details", {})))
    return known


def _incidents(read: Read, chain: int, seq: int) -> list[dict[str, Any]]:
    rows = read(
        "SELECT envelope FROM entry WHERE chain = ? AND kind = 'incident' AND seq > ? ORDER BY seq",
        chain,
        seq,
    )
    return [payload_of(row[0])["body"] for row in rows]


def _device_to_inspect(read: Read, chain: int) -> str:
    # No round is opened before the inspection, so only what follows the last opening can ask for it.
    opened = read(
        "SELECT seq FROM entry WHERE chain = ? AND kind = 'round' ORDER BY round DESC LIMIT 1", chain
    )
    asked = ""
    for body in _incidents(read, chain, opened[0][0] if opened else 0):
        asked = {DEVICE_CHANGED: DEVICE_CHANGED, "inspected": ""}.get(body["what"], asked)
    return asked


def _inspection(read: Read, chain: int, last_round: int) -> str:
    # No round is opened before the inspection, so only the last one can ask for it.
    rows = read(
        "SELECT seq, kind, envelope FROM entry WHERE chain = ? AND round = ? AND final = 1",
        chain,
        last_round,
    )
    rule = payload_of(rows[0][2])["body"].get("rule", "") if rows and rows[0][1] == Kind.VOID else ""
    if rule not in INSPECTED_AFTER:
        return ""
    later = read(
        "SELECT envelope FROM entry WHERE chain = ? AND kind = 'incident' AND seq > ?", chain, rows[0][0]
    )
    return "" if any(payload_of(row[0])["body"]["what"] == "inspected" for row in later) else str(rule)


def _results(read: Read, chain: int) -> tuple[dict[str, Any], ...]:
    # Looks through as many rounds as there may be voids among them, and no further.
    rows = read(
        "SELECT round, kind, envelope, seq FROM entry WHERE chain = ? AND final = 1"
        " ORDER BY round DESC LIMIT ?",
        chain,
        FINALS_LOOKED_AT,
    )
    corrections = _corrections(read, chain, rows[-1][3]) if rows else {}
    newest: list[dict[str, Any]] = []
    for round_number, kind, envelope, _ in rows:
        correction = corrections.get(round_number)
        if correction is not None and correction["body"]["after"]["kind"] == Kind.RESULT:
            newest.append(_corrected(payload_of(envelope), correction))
        elif correction is None and kind == Kind.RESULT:
            newest.append(payload_of(envelope))
        if len(newest) == RESULTS_KEPT:
            break
    return tuple(reversed(newest))


def _corrections(read: Read, chain: int, seq: int) -> dict[int, dict[str, Any]]:
    """By round the last correction, of those that came after a record."""
    rows = read(
        "SELECT round, envelope FROM entry WHERE chain = ? AND seq > ? AND kind = 'correction' ORDER BY seq",
        chain,
        seq,
    )
    return {int(round_number): payload_of(envelope) for round_number, envelope in rows}


def _corrected(final: dict[str, Any], correction: dict[str, Any]) -> dict[str, Any]:
    """A final record as it counts: what came is the correction's, and so is its place in the chain."""
    outcome = correction["body"]["after"]["outcome"]
    return final | {"seq": correction["seq"], "body": final["body"] | {"outcome": outcome}}


def _number(read: Read, query: str, *values: str | int) -> int:
    return int(read(query, *values)[0][0])
