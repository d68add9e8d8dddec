r"""Lines of the Cammegh SlingShot 2 serial interface (device document, part 1).

    *X;S;GGG;NN;F;RRR;D      status: state, counter, last number, flags, rpm x 10, direction
    NN                       bare winning number, port 1 only
    *Y;B;nnn[;dd]            bonus number (firmware >= 1.22)
    *F code                  self-test or fault code
    *T x value, *V text ...  replies to commands; *bs n, *bn nn are sensor events

There is no checksum, so a line counts only if it matches from end to end; of a line that was begun again in
its middle, or that noise came before, the last `*X;` counts. Of what is no line, pieces of a status line or
of a number and noise are damage; foreign text and echoes of commands are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TypeAlias


class State(IntEnum):
    """`S` of a status line."""

    BEFORE_GAME = 1
    PLACE_BETS = 2
    BALL_IN_RIM = 3
    NO_MORE_BETS = 4
    NUMBER = 5
    CLOSED = 6
    BALL_NOT_IN_TRACK = 7
    """Firmware 2.52 with `*T g` bit 32; between 4 and 5."""


class Warn(IntFlag):
    """`F` of a status line, one hex digit."""

    BALL_NOT_DETECTED = 1
    BALL_WITH_ROTOR = 2
    FAULT = 4
    LAUNCH_FAILED = 8


@dataclass(frozen=True, slots=True)
class StatusLine:
    """`*X`. `pocket` is empty until the first result after power on."""

    state: State
    counter: int
    pocket: str
    flags: Warn
    rpm_x10: int
    """Tenths of rpm; overflow shows as 0."""
    counter_clockwise: bool


@dataclass(frozen=True, slots=True)
class BareNumber:
    """The winning number alone on its line."""

    pocket: str


@dataclass(frozen=True, slots=True)
class BonusNumber:
    """`*Y`. `value` is None where the licence is over (999): that is not a number."""

    index: int
    value: int | None
    licence_days: int | None


@dataclass(frozen=True, slots=True)
class FaultCode:
    """`*F`: 0 good, 1-8 and 11-23 parts of the wheel, 100 test timed out."""

    code: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer to a command; `key` as in `T z` or `V`."""

    key: str
    text: str


Line: TypeAlias = StatusLine | BareNumber | BonusNumber | FaultCode | Reply

_BEGINNING = b"*X;"
_NUMBER = rb" [0-9]|[1-3][0-9]|00"
_STATUS = re.compile(rb"\*X;([1-7]);([0-9]{3});(" + _NUMBER + rb"|  );([0-9A-F]);([0-9]{3});([01])")
_BARE = re.compile(_NUMBER)
_BONUS = re.compile(rb"\*Y;([1-6]);([0-9]{3})(?:;([0-9]{1,2}))?")
_FAULT = re.compile(rb"\*F ([0-9]{1,3})")
_TEXT = rb"([!-~][ -~]*)"
_REPLIES = (
    re.compile(rb"\*(T [a-z]) " + _TEXT),
    re.compile(rb"\*([A-Za-z]|b[sn]|[ -~](?= NO$)) " + _TEXT),
    re.compile(rb"(T|bs|bn) (OK|[0-9]{1,2})"),
)
"""A setting; a command, a sensor event or an unknown command; what the document also prints without `*`."""

_DAMAGE = re.compile(rb".*;.*| ?[0-9].*|.[0-9]| +|\*X.+|\*|.*[^ -~].*", re.DOTALL)
"""What separates the fields of a status line; beginning or end of a number; beginning of any line; noise."""

_COUNTER_MAX = 256
"""Games run 1..256; 0 is tolerated, a wheel may wrap one earlier than its document says."""
_BONUS_MAX = 255
_POCKET_COUNTS = ("37", "38", "39", "40")
_CODES = {"38": "000", "39": "0000"}
"""Pocket codes of wheels with three and four zeros."""


def _pocket(text: bytes) -> str:
    """Two characters to the pocket's name; ` 0` and `00` stay different."""
    name = text.decode("ascii").strip()
    return _CODES.get(name, name)


def parse_tail(raw: bytes) -> StatusLine | None:
    """The status line from the last `*X;` to the end, whatever stands before it."""
    match = _STATUS.fullmatch(raw, max(0, raw.rfind(_BEGINNING)))
    if match is None or int(match[2]) > _COUNTER_MAX:
        return None
    return StatusLine(
        state=State(int(match[1])),
        counter=int(match[2]),
        pocket=_pocket(match[3]),
        flags=Warn(int(match[4], 16)),
        rpm_x10=int(match[5]),
        counter_clockwise=match[6] == b"1",
    )


def begun_again(raw: bytes) -> bool:
    """Whether something stands before the last `*X;`: another line lost its end, or there was noise."""
    return raw.rfind(_BEGINNING) > 0


def is_damage(raw: bytes) -> bool:
    """Whether what is no line is left of one: a piece of a status line or of a number, or noise."""
    return _DAMAGE.fullmatch(raw) is not None


def parse(raw: bytes) -> Line | None:
    """What a line says, or None where it is not a whole line of this interface."""
    if _BEGINNING in raw:
        return parse_tail(raw)
    if _BARE.fullmatch(raw):
        return BareNumber(_pocket(raw))
    if match := _BONUS.fullmatch(raw):
        value = int(match[2])
        days = int(match[3]) if match[3] else None
        return BonusNumber(int(match[1]), value if value <= _BONUS_MAX else None, days)
    if match := _FAULT.fullmatch(raw):
        return FaultCode(int(match[1]))
    for pattern in _REPLIES:
        if match := pattern.fullmatch(raw):
            return Reply(match[1].decode("ascii"), match[2].decode("ascii"))
    return None


def said_of_itself(line: Line) -> dict[str, str]:
    """What a line says of the wheel, by the keys of its identity."""
    match line:
        case Reply("V", text):
            return {"firmware": text.split()[0], "banner": text}
        case Reply("T z", text) if text in _POCKET_COUNTS:
            return {"pockets": text}
        case Reply("T g", text):
            return {"game_modes": text}
        case Reply("O", text) if len(fields := text.split()) == 4:
            return {"mode": fields[3], "status_output": "on" if fields[1] == "1" else "off"}
        case FaultCode(code):
            return {"fault_code": str(code)}
        case BonusNumber(licence_days=int(days)):
            return {"bonus_licence_days": str(days)}
    return {}
