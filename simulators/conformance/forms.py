"""The places of the fields (2.5) as patterns: `STA`, `EVT` and `RES` of each talker. Empty is "not known".

`HEL` and `FLT` have clauses of their own (3.1, 3.4), what a camera says of its dice too (9.2).
"""

from __future__ import annotations

import re
from typing import TypeAlias

from dollyd.simulators.conformance.record import Line

Form: TypeAlias = tuple[tuple[str, str], ...]
"""Names and patterns of the fields behind the sequence number; further fields may follow."""

TALKERS = ("WH", "BD", "OD", "MW", "DC", "CN")
"""Every kind of device that can be tested."""

_GAME = ("game", r"\d{4}")
_FLAGS = ("flags", r"[0-9A-F]{1,4}")
_DIR = ("dir", r"[01]?")
_LAPS = ("laps", r"\d*")
_SPEED = ("rpm_x10", r"\d*")
_TURNS = ("turns_x100", r"\d*")
_SECTOR = ("sector", r"([1-9]\d*)?")
_N, _MS = ("n", r"[1-9]\d*"), ("ms", r"\d+")

FORMS: dict[tuple[str, str], tuple[Form, ...]] = {
    ("WH", "STA"): ((("state", "[1-6]"), _GAME, ("number", ".*"), _SPEED, _DIR, _LAPS, _FLAGS),),
    ("WH", "EVT"): ((_GAME, ("LAP or REV", "LAP|REV"), _N, _MS),),
    ("WH", "RES"): ((_GAME, ("number", r"0|00|[1-9]?\d?"), _SPEED, _DIR, _LAPS, _FLAGS),),
    ("BD", "STA"): ((("state", "[235]"), _GAME, _LAPS, _DIR, _FLAGS),),
    ("BD", "EVT"): ((_GAME, ("LAP", "LAP"), _N, _MS), (_GAME, ("DROP", "DROP"), _LAPS, _DIR)),
    ("BD", "RES"): ((_GAME, _LAPS, _DIR, _FLAGS),),
    ("MW", "STA"): ((("state", "[12356]"), _GAME, _SECTOR, _SPEED, _DIR, _TURNS, _FLAGS),),
    ("MW", "EVT"): ((_GAME, ("PASS", "PASS"), ("sector", r"[1-9]\d*"), _MS),),
    ("MW", "RES"): ((_GAME, _SECTOR, _DIR, _TURNS, _FLAGS),),
    ("DC", "STA"): ((("state", "[12356]"), _GAME, ("n", r"[1-9]"), _FLAGS),),
    ("DC", "RES"): ((_GAME, ("n", r"[1-9]")),),
    ("OD", "STA"): ((("state", "[15]"), ("game", r"(\d{4})?"), _FLAGS),),
    ("OD", "RES"): (
        (
            *(_GAME, ("table", "[12]"), ("counter", r"\d{9}"), ("nonce", "[0-9A-Fa-f]{16}")),
            ("proof", "[0-9A-F]{16}"),
        ),
    ),
    ("CN", "STA"): ((("badge", ".*"), _FLAGS),),
    ("CN", "EVT"): (
        (("key", "BADGE"), ("id", ".*")),
        (("key", "[A-Z]+"), ("round", r"\d*")),
    ),
}

_FLAGS_AT: dict[tuple[str, str], int] = {
    ("WH", "STA"): 6,
    ("BD", "STA"): 4,
    ("MW", "STA"): 6,
    ("DC", "STA"): 3,
    ("OD", "STA"): 2,
    ("CN", "STA"): 1,
    ("WH", "RES"): 5,
    ("BD", "RES"): 3,
    ("MW", "RES"): 4,
    **{(talker, "FLT"): 1 for talker in TALKERS},
}
"""Place of the flags; in a `RES` of a camera it depends on the number of dice."""


def whole_mask(text: str) -> int | None:
    """A field of flags, None where it is none."""
    return int(text, 16) if re.fullmatch("[0-9A-F]{1,4}", text) else None


def mask_of(talker: str, line: Line) -> int | None:
    """The flags of a sentence, None where it has none, or none that can be read."""
    if (talker, line.message) == ("DC", "RES"):
        dice = line.field(1)
        return whole_mask(line.field(2 + 2 * int(dice))) if re.fullmatch("[0-9]", dice) else None
    place = _FLAGS_AT.get((talker, line.message))
    return None if place is None else whole_mask(line.field(place))


def misfit(talker: str, message: str, fields: tuple[str, ...]) -> str:
    """What is wrong with the fields of a sentence, empty where nothing is."""
    troubles = [_trouble(form, fields) for form in FORMS.get((talker, message), ())]
    return "" if not troubles or "" in troubles else troubles[-1]


def _trouble(form: Form, fields: tuple[str, ...]) -> str:
    if len(fields) < len(form):
        return f"{len(fields)} fields behind the sequence number, at least {len(form)} are needed"
    for (name, pattern), text in zip(form, fields, strict=False):
        if not re.fullmatch(pattern, text):
            return f"{name} is {text!r}"
    return ""
