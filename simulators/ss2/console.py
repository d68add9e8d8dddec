"""The wheel's commands (part 1 section 7), answered as the maker's paper and the captures say.

Left out, and so answered like any unknown command: `*i` and `*j`, which fire jets.
"""

from __future__ import annotations

from collections.abc import Callable

from dollyd.simulators.ss2.game import Play
from dollyd.simulators.ss2.options import PARAMETERS

_PAGE_BYTES = 256


class Console:
    """One line in, the answer out; every table row is one method."""

    def __init__(self, play: Play) -> None:
        self._play = play
        options = play.options
        self.output_on = True
        """The switch `*q`: all `*X` output."""
        self._stored = PARAMETERS | {
            "h": str(options.games_per_hour),
            "z": str(options.pockets),
            "g": str(options.extra_modes),
        }
        self._values = dict(self._stored)
        self._answers: dict[str, Callable[[str], str]] = {
            "X": self._status,
            "P": self._power,
            "R": lambda _: _ok("R", play.restart()),
            "u": self._start,
            "K": self._key,
            "S": lambda _: f"*S {options.firmware.split()[0]}",
            "V": lambda _: f"*V {options.firmware}",
            "v": lambda _: "*v 1.3 2.1",
            "o": self._mode,
            "O": lambda _: f"*O {play.state} {self.output_on:d} {self._values['h']} {play.mode}",
            "q": self._output,
            "A": lambda _: f"*A {play.turned_pockets % len(play.pockets):.0f}",
            "d": self._date,
            "F": lambda _: "*F 0" if play.state == 6 else "*F BUSY",
            "T": self._parameter,
            "y": self._licence,
            "w": self._chi_squared,
        }
        if options.port == 1:
            self._answers |= {
                "I": self._sensor_events,
                "C": self._calibrate,
                "W": lambda _: self._list("W", play.wins),
                "M": lambda _: f"*M {play.misfires}" if play.state in {5, 6} else "*M BUSY",
                "s": self._log,
            }

    def power_up(self) -> None:
        """Settings that were not stored (`*T f`) are gone; so is `*q 0`."""
        self._values = dict(self._stored)
        self.output_on = True

    def answer(self, line: bytes) -> bytes:
        """The answer to one command line, with its end; nothing for text that is no command."""
        text = line.decode("latin-1")
        if not text.startswith("*") or len(text) < 2:
            return b""
        respond = self._answers.get(text[1])
        answer = respond(text[2:]) if respond else f"*{text[1]} NO"
        return f"{answer}\r\n".encode("latin-1") if answer else b""

    def _status(self, _: str) -> str:
        return self._play.status().decode("ascii").removesuffix("\r\n") if self.output_on else ""

    def _power(self, rest: str) -> str:
        match rest.strip():
            case "1":
                return _ok("P", self._play.open_table())
            case "0":
                return _ok("P", self._play.close_table())
            case _:
                return "*P NO"

    def _start(self, rest: str) -> str:
        if rest.strip() not in {"1", "3"}:
            return "*u NO"
        self._play.press_start()
        return "*u OK"

    def _key(self, _: str) -> str:
        if self._play.state == 6:
            return "*K CAM"
        self._play.press_start()
        return "*K OK"

    def _mode(self, rest: str) -> str:
        value = rest.strip()
        if value and self._play.state != 6:
            return "*o BUSY"
        if value and not value.isdigit():
            return "*o NO"
        if value:
            self._play.mode = int(value)
        return f"*o {self._play.mode}"

    def _output(self, rest: str) -> str:
        if rest.strip() not in {"0", "1"}:
            return "*q NO"
        self.output_on = rest.strip() == "1"
        return "*q OK"

    def _sensor_events(self, rest: str) -> str:
        self._play.sensor_events = rest.strip() != "0"
        return f"*I {rest.strip()}"

    def _date(self, rest: str) -> str:
        # A wheel's clock is its own; nothing else in the model depends on it.
        return "*d g 12:00:00 - 03/12/18" if rest.strip() == "g" else "*d OK"

    def _calibrate(self, _: str) -> str:
        if self._play.state != 6:
            return "*C BUSY"
        return "*C OK : Sensors\r\n*C BALL : Found\r\n*C OK : Completed (6705, 3386, 26)"

    def _parameter(self, rest: str) -> str:
        name, *values = rest.split() or ("",)
        if name == "f":
            self._stored = dict(self._values)
            return "*T OK"
        if not rest.startswith(" "):
            return "*T OK"  # `*Tr 23000 23000`: says OK, does nothing (seen in captures)
        if name.lower() not in self._values:
            return "*T NO"
        if name.isupper():
            return f"*T {name.lower()} {self._values[name.lower()]}"
        self._values[name] = (
            " ".join(_tenths(value) for value in values) if name in "ms" else " ".join(values)
        )
        if name == "g":
            self._play.extra_modes = int(values[0]) if values and values[0].isdigit() else 0
        return "*T OK"

    def _licence(self, rest: str) -> str:
        match rest.split():
            case []:
                return f"*y {self._play.options.bonus_days:03}"
            case ["R"]:
                return "*y R 48151623"
            case _:
                return "*y A NO"

    def _chi_squared(self, _: str) -> str:
        play = self._play
        games = play.wins.total()
        if play.state not in {5, 6}:
            return "*w BUSY"
        expected = games / len(play.pockets)
        value = sum((play.wins[pocket] - expected) ** 2 for pocket in play.pockets) / max(expected, 1e-9)
        return f"*w {value:.1f} 50.0"

    def _list(self, letter: str, counts: dict[str, int]) -> str:
        if self._play.state not in {5, 6}:
            return f"*{letter} BUSY"
        return "\r\n".join(
            (f"*{letter} {sum(counts.values())}", *(f"{pocket} {count}" for pocket, count in counts.items()))
        )

    def _log(self, rest: str) -> str:
        log = "".join(chr(0x21 + self._play.pockets.index(pocket)) for pocket in self._play.wins.elements())
        match rest.split():
            case ["t"] if self._play.state in {5, 6}:
                return f"*s t {-(-len(log) // _PAGE_BYTES)}"
            case ["r", page] if self._play.state == 6 and page.isdigit():
                text = log[int(page) * _PAGE_BYTES :][:_PAGE_BYTES].ljust(_PAGE_BYTES, "~")
                return f"{text}{sum(text.encode('latin-1')) % 256:02X}"
            case ["e"] if self._play.state == 6:
                self._play.wins.clear()
                return "*s e Erased"
            case _:
                return "*s BUSY"


def _ok(letter: str, done: bool) -> str:
    return f"*{letter} {'OK' if done else 'NO'}"


def _tenths(value: str) -> str:
    """Speeds come back with one decimal: `2` as `2.0`."""
    try:
        return f"{float(value):.1f}"
    except ValueError:
        return value
