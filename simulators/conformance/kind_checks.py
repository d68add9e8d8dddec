"""Checks of flags, dice cameras, odds boxes and consoles: clauses 6.4 to 8.4, and 9 to 11."""

from __future__ import annotations

import hashlib
import hmac
import re
from itertools import pairwise

from dollyd.simulators.conformance.findings import Tally
from dollyd.simulators.conformance.forms import mask_of, whole_mask
from dollyd.simulators.conformance.limits import (
    DRAW_NS,
    SLACK_NS,
)
from dollyd.simulators.conformance.record import Line, Record
from dollyd.simulators.conformance.seen import (
    Announced,
    announced,
    number_of,
    ours,
)

_WRONG_COUNT, _FROZEN, _ASKED_TWICE = 0x04, 0x20, 0x10
KEYS = {"OPEN", "CLOSE", "NMB", "VOID", "CONFIRM", "PERMIT", "REJECT", "BADGE"}
_DEFINED_FLAGS = {"WH": 0x1FF, "BD": 0x1FF, "MW": 0x7F, "DC": 0x3FF, "OD": 0x1F}
_CONFIDENCE = re.compile(r"0\.[0-9]{2}|1\.00")
_COUNTER_MODULUS = 10**9


def flags_defined(record: Record) -> Tally:
    """6.4, 7.4, 8.4, 9.3, 10.4: no other flags than those of the table."""
    tally = Tally()
    for line in record.of("STA", "RES", "FLT"):
        mask = mask_of(record.talker, line)
        if mask is not None:
            other = mask & ~_DEFINED_FLAGS[record.talker]
            tally.look(line, f"flag {other:02X} is not defined" if other else "")
    return tally


def dice_parts(record: Record) -> Tally:
    """9.2: as many faces and confidences as `STA` says that there are dice."""
    tally = Tally()
    dice = ""
    for line in record.of("STA", "RES"):
        if line.message == "STA":
            dice = line.field(2)
        else:
            tally.look(line, _dice_trouble(line, dice))
    return tally


def _dice_trouble(line: Line, dice: str) -> str:
    fields = () if line.sentence is None else line.sentence.fields
    n = number_of(line.field(1)) or 0
    if len(fields) < 4 + 2 * n:
        return f"{len(fields)} fields behind the sequence number, {4 + 2 * n} are needed for {n} dice"
    faces, confidences, mask = fields[2 : 2 + n], fields[2 + n : 2 + 2 * n], fields[2 + 2 * n]
    if any(not re.fullmatch("[1-6]?", face) for face in faces):
        return f"faces are {', '.join(faces)}"
    if any(text and not _CONFIDENCE.fullmatch(text) for text in confidences):
        return f"confidences are {', '.join(confidences)}"
    if (bits := whole_mask(mask)) is None:
        return f"flags are {mask!r}"
    other = dice and str(n) != dice and not bits & _WRONG_COUNT
    return f"{n} dice without flag 04, STA says {dice}" if other else ""


def one_picture_a_throw(record: Record) -> Tally:
    """9.2: each result has a picture of its own, unless the camera says that it is frozen."""
    tally = Tally()
    known: set[str] = set()
    for one in ours(record):
        line = one.first
        n = number_of(line.field(1)) or 0
        image, mask = line.field(3 + 2 * n), mask_of(record.talker, line) or 0
        if not image:
            tally.look(line, "no id of a picture")
        else:
            again = image in known and not mask & _FROZEN
            tally.look(line, f"picture {image} was that of another game" if again else "")
        known.add(image)
    return tally


def shows_answer(record: Record) -> Tally:
    """10.1: state 5 while an answer waits."""
    tally = Tally()
    for one in ours(record):
        for line in record.of("STA"):
            if one.first.at_ns < line.at_ns < one.waits_until_ns - SLACK_NS:
                ready = line.field(0) != "5"
                tally.look(line, f"state {line.field(0)} while an answer is shown" if ready else "")
    return tally


def one_draw_a_game(record: Record) -> Tally:
    """10.2: whatever is asked, a game has one answer."""
    tally = Tally()
    answers: dict[str, tuple[str, ...]] = {}
    for line in record.of("RES"):
        fields = () if line.sentence is None else line.sentence.fields[1:5]
        first = answers.setdefault(line.field(0), fields)
        tally.look(line, "" if fields == first else f"game {line.field(0)} was drawn before")
    return tally


def answers_again(record: Record) -> Tally:
    """10.2: the same request again, or another nonce, brings the first answer; another nonce flag 10 too."""
    tally = Tally()
    first_nonces: dict[str, str] = {}
    for said in record.told("DRW"):
        if said.sentence is None:
            continue
        game, nonce = said.sentence.fields[:2]
        again = game in first_nonces
        first = first_nonces.setdefault(game, nonce)
        soon = [line for line in record.lines if 0 <= line.at_ns - said.at_ns <= DRAW_NS]
        if not again or record.end_ns < said.at_ns + DRAW_NS or game not in _answered(record):
            continue
        if not any(line.message == "RES" and line.field(0) == game for line in soon):
            tally.missing(said.at_ns + DRAW_NS, f"no answer to the second request for game {game}")
        masks = [mask_of(record.talker, line) or 0 for line in soon if line.message in {"FLT", "STA"}]
        readable = not any(line.clause for line in soon)
        if nonce != first and readable and not any(mask & _ASKED_TWICE for mask in masks):
            tally.missing(said.at_ns + DRAW_NS, f"no flag 10 for another nonce for game {game}")
        tally.seen += 1
    return tally


def draw_counter(record: Record) -> Tally:
    """10.2: +1 a draw, over a loss of power too."""
    tally = Tally()
    first: dict[str, Line] = {}
    for one in ours(record):
        first.setdefault(one.name, one.first)
    for before, after in pairwise(first.values()):
        was, now = number_of(before.field(2)), number_of(after.field(2))
        if was is not None and now is not None:
            wrong = now != (was + 1) % _COUNTER_MODULUS
            tally.look(after, f"the draw counter was {was:09} before" if wrong else "")
    return tally


def nonce_as_asked(record: Record) -> Tally:
    """10.3: the nonce of the first request for the game."""
    tally = Tally()
    asked: dict[str, str] = {}
    for said in record.told("DRW"):
        if said.sentence is not None:
            asked.setdefault(*said.sentence.fields[:2])
    for one in ours(record):
        if (nonce := asked.pop(one.name, None)) is not None:  # a second answer is for 10.2
            wrong = one.first.field(3) != nonce
            tally.look(one.first, f"the nonce {nonce} was asked for" if wrong else "")
    return tally


def proof(record: Record) -> Tally:
    """10.3: made with the shared key over the fields as they stand."""
    tally = Tally()
    serials = [line.field(4) for line in record.of("HEL")]
    for one in ours(record) if serials else []:
        game, table, counter, nonce, told = (one.first.field(place) for place in range(5))
        text = f"OD1,{serials[0]},{game},{table},{counter},{nonce}"
        right = hmac.new(record.key, text.encode("ascii"), hashlib.sha256).hexdigest()[:16].upper()
        tally.look(one.first, "" if told == right else f"over {text} the proof is {right}")
    return tally


def _answered(record: Record) -> set[str]:
    return {line.field(0) for line in record.of("RES")}


def keys(record: Record) -> Tally:
    """11.1."""
    tally = Tally()
    for line in record.of("EVT"):
        tally.look(line, "" if line.field(0) in KEYS else f"no key {line.field(0)!r} in the protocol")
    return tally


def badge(record: Record) -> Tally:
    """11.4: `STA` shows the badge that was told last."""
    tally = Tally()
    told: Announced | None = None
    badges = {one.first.raw: one for one in announced(record) if one.first.field(0) == "BADGE"}
    for line in record.of("STA", "EVT"):
        told = badges.get(line.raw, told)
        if line.message == "STA" and told is not None and line.boot == told.first.boot:
            wrong = line.field(0) != told.name
            tally.look(line, f"badge {line.field(0)!r}, {told.name!r} was told" if wrong else "")
    return tally
