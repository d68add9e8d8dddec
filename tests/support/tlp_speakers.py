"""The talkers of TLP/1 by the sentence: each plays a game as its device would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.tlp_lines import Host, Speaker, setup_of

WHEEL_GAME = "0412"
MONEY_GAME = "0077"
DICE_GAME = "0990"
NUMBER = "28"
SECTORS = 54


class Wheel(Speaker):
    """A wheel that plays a game by the sentence."""

    def __init__(self, kind: str = "WHEEL", seq: int = 0) -> None:
        super().__init__("WH", kind, seq)

    def sta(
        self, state: int, game: str = WHEEL_GAME, flags: str = "00", rpm: str = "172", way: str = "0"
    ) -> bytes:
        return self.say("STA", str(state), game, "", rpm, way, "", flags)

    def laps(self, count: int, game: str = WHEEL_GAME, what: str = "LAP") -> list[bytes]:
        return [self.say("EVT", game, what, str(n), "800") for n in range(1, count + 1)]

    def res(
        self,
        number: str = NUMBER,
        laps: str = "5",
        flags: str = "00",
        game: str = WHEEL_GAME,
        *more: str,
        way: str = "0",
    ) -> bytes:
        return self.say("RES", game, number, "160", way, laps, flags, *more)

    def before(self, game: str = "0411") -> list[bytes]:
        return [self.hello(), self.sta(1, game)]

    def draw(self, game: str = WHEEL_GAME, laps: int = 5) -> list[bytes]:
        """From place bets to no more bets; every lap is told."""
        return [
            self.sta(2, game),
            self.sta(3, game),
            *self.laps(laps, game),
            self.sta(4, game),
        ]


class Detector(Speaker):
    """A ball detector; a run is a game of it."""

    def __init__(self) -> None:
        super().__init__("BD")
        self.counted = 0
        self.way = "0"

    def sta(self, state: int, game: str = WHEEL_GAME, flags: str = "00") -> bytes:
        if state == 2:
            self.counted = 0
        return self.say("STA", str(state), game, str(self.counted), self.way, flags)

    def lap(self, n: int, game: str = WHEEL_GAME) -> bytes:
        self.counted = n
        return self.say("EVT", game, "LAP", str(n), "812")

    def laps(self, count: int, game: str = WHEEL_GAME) -> list[bytes]:
        return [self.lap(n, game) for n in range(1, count + 1)]

    def drop(self, laps: int, game: str = WHEEL_GAME) -> bytes:
        return self.say("EVT", game, "DROP", str(laps), self.way)

    def res(self, laps: str = "4", way: str = "", flags: str = "00", game: str = WHEEL_GAME) -> bytes:
        return self.say("RES", game, laps, way or self.way, flags)

    def run(self, laps: int = 4, game: str = WHEEL_GAME) -> list[bytes]:
        """From no ball to the drop."""
        return [
            self.sta(2, game),
            self.sta(3, game),
            *self.laps(laps, game),
            self.drop(laps, game),
            self.sta(5, game),
        ]


class MoneyWheel(Speaker):
    """A wheel that knows where it stands."""

    def __init__(self, sector: int = 1) -> None:
        super().__init__("MW")
        self.sector = sector
        self.way = "0"
        """Direction that its `RES` tells."""

    def sta(self, state: int, game: str = MONEY_GAME, flags: str = "00") -> bytes:
        return self.say("STA", str(state), game, str(self.sector), "0", "0", "", flags)

    def go(self, passes: int, game: str = MONEY_GAME) -> list[bytes]:
        """So many sectors in direction 0, or back where negative."""
        way, lines = (1 if passes > 0 else -1), []
        for _ in range(abs(passes)):
            self.sector = (self.sector - 1 + way) % SECTORS + 1
            lines.append(self.say("EVT", game, "PASS", str(self.sector), "20"))
        return lines

    def res(
        self, turns_x100: str = "", flags: str = "00", game: str = MONEY_GAME, sector: str | None = None
    ) -> bytes:
        shown = str(self.sector) if sector is None else sector
        return self.say("RES", game, shown, self.way, turns_x100, flags)

    def turn(self, *ways: int, game: str = MONEY_GAME) -> list[bytes]:
        """From place bets to the last pass."""
        return [self.sta(2, game), self.sta(3, game), *(line for way in ways for line in self.go(way, game))]


class Camera(Speaker):
    """A camera that looks at so many dice."""

    def __init__(self, dice: int = 2) -> None:
        super().__init__("DC")
        self.dice = dice

    def sta(self, state: int, game: str = DICE_GAME, flags: str = "00") -> bytes:
        return self.say("STA", str(state), game, str(self.dice), flags)

    def res(
        self,
        *faces: str,
        flags: str = "00",
        game: str = DICE_GAME,
        sure: str = "0.98",
        image: str | None = None,
    ) -> bytes:
        confidences = [sure if face else "0.00" for face in faces]
        return self.say(
            "RES",
            game,
            str(len(faces)),
            *faces,
            *confidences,
            flags,
            f"{self.seq:08X}" if image is None else image,
        )

    def throw(self, game: str = DICE_GAME) -> list[bytes]:
        return [self.sta(2, game), self.sta(3, game), self.sta(5, game)]


class Console(Speaker):
    """A dealer console."""

    def __init__(self) -> None:
        super().__init__("CN")

    def key(self, key: str, value: str = "") -> bytes:
        return self.say("EVT", key, value)

    def sta(self, badge: str = "", flags: str = "00") -> bytes:
        return self.say("STA", badge, flags)


# --- a wheel and its host ------------------------------------------------------------------------------


def wheel_host(game: str = "roulette", **changes: Any) -> Host:
    return Host(setup_of("WH", game, **changes)).open()


def wheel_heard(lines: Iterable[bytes], game: str = "roulette") -> Host:
    return wheel_host(game).hear(*lines, ms=100)


def whole_game(wheel: Wheel | None = None, number: str = NUMBER) -> list[bytes]:
    wheel = wheel or Wheel()
    return [*wheel.before(), *wheel.draw(), wheel.res(number)]
