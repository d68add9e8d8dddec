"""Driver `tlp`, talker DC: a dice camera (tlp-1.md 9).

    $DCSTA,seq,state,game,n,flags
    $DCRES,seq,game,n,face,...,confidence,...,flags,image

A throw is read if every die has a face, every face enough confidence, and the picture is a live one. A flag
that speaks against the throw is told with or without faces: whether it rejects the throw is for the rules.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dollyd.daemon.core.events import Defect, Flag
from dollyd.drivers.protocols.tlp.device import mask_of, whole_of
from dollyd.drivers.protocols.tlp.game import AT_REST, MOVING, PLACE_BETS, FlagTable, Kind
from dollyd.drivers.protocols.tlp.games import TlpGames
from dollyd.drivers.protocols.tlp.sentence import Sentence
from dollyd.drivers.spec import DeviceSetup, Option

CONFIDENCE_MIN_X100 = 90
OPTIONS = {
    "confidence_min_x100": Option(
        "a dice camera: hundredths; a reading of which it is less sure is none", CONFIDENCE_MIN_X100, 1, 100
    )
}

_WRONG_COUNT, _NOT_AT_REST, _COVERED, _FROZEN = 0x04, 0x08, 0x10, 0x20
_NOT_SHAKEN, _APART = 0x80, 0x200
_DICE_MAX = 6
_CONFIDENCE = re.compile(r"0\.[0-9]{2}|1\.00")

FLAGS = FlagTable(
    flags={
        0x01: Flag.COCKED,
        0x02: Flag.STACKED,
        _WRONG_COUNT: Flag.WRONG_COUNT,
        0x40: Flag.FOREIGN_OBJECT,
        _NOT_SHAKEN: Flag.NOT_SHAKEN,
        0x100: Flag.OUTSIDE_AREA,
        _APART: Flag.NOT_TOGETHER,
    },
    doubts={},
    fault=_FROZEN,
    moving=_NOT_SHAKEN | _APART,
)
"""Clause 9.3. How a die lies is judged at rest, how it was thrown at once."""


class DiceProtocol(TlpGames):
    """The language of a dice camera without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        super().__init__(setup, Kind("DC", "DICE", (PLACE_BETS, MOVING, AT_REST), 3, FLAGS))
        self._dice = len(setup.readings[0]) if setup.readings else 0
        self._confidence_min_x100 = int(setup.options.get("confidence_min_x100", CONFIDENCE_MIN_X100))

    def _waits(self, fields: tuple[str, ...]) -> bool:
        bits = mask_of(_Parts(fields).mask)
        return bits is not None and bool(bits & _NOT_AT_REST)

    def _value_of(self, fields: tuple[str, ...]) -> tuple[str, ...]:
        return _Parts(fields).faces

    def _on_state(self, sentence: Sentence) -> None:
        """Clause 9.1: a camera that is set to another number of dice looks for other dice than these."""
        attempt, dice = self._own.attempt, whole_of(sentence.field(2))
        if attempt and attempt.state in (PLACE_BETS, MOVING) and dice is not None:
            self._compare("dice", f"STA {dice}", f"game {self._dice}", agree=dice == self._dice)

    def _on_rest(self, fields: tuple[str, ...]) -> None:
        parts, attempt = _Parts(fields), self._own.attempt
        bits = mask_of(parts.mask)
        frozen = parts.image != "" and parts.image == _Parts(self._own.earlier).image
        if attempt is None or bits is None or bits & _FROZEN or frozen:
            # A frozen picture shows another throw: neither faces nor flags are of this one.
            self._spoil(Defect.UNREAD)
            return
        if len(parts.faces) != self._dice:
            bits |= _WRONG_COUNT
        image = (("image", parts.image),) if parts.image else ()
        self._change(facts=replace(attempt.facts, details=(*attempt.facts.details, *image)))
        self._note_flags(bits)
        self._confirmed_doubts()
        attempt = self._own.attempt
        if self._readable(parts, bits):
            self._finish(parts.faces)
        elif attempt and not attempt.facts.flags:
            self._spoil(Defect.UNREAD)

    def _readable(self, parts: _Parts, bits: int) -> bool:
        sure = all(
            _CONFIDENCE.fullmatch(text) and int(text.replace(".", "")) >= self._confidence_min_x100
            for text in parts.confidences
        )
        return sure and not bits & _COVERED and parts.faces in self._setup.readings


class _Parts:
    """The fields of a `RES` by their names; empty where they are not what the number of dice says."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        count = whole_of(fields[1]) if len(fields) > 1 else None
        self.faces: tuple[str, ...] = ()
        self.confidences: tuple[str, ...] = ()
        self.mask = self.image = ""
        if count is not None and count <= _DICE_MAX and len(fields) > 2 + 2 * count:
            rest = fields[2:]
            self.faces, self.confidences = rest[:count], rest[count : 2 * count]
            self.mask = rest[2 * count]
            self.image = rest[2 * count + 1] if len(rest) > 2 * count + 1 else ""
