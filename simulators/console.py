"""A dealer console that speaks TLP/1 (talker `CN`): keys, a badge reader, a line of display for the round.

    console: $CNSTA,seq,badge,flags            every period
    console: $CNEVT,seq,KEY,round              every period until `HCACK,seq,round`
    console: $CNEVT,seq,BADGE,id               every period until `HCACK,seq,id`; an empty id is nobody

What was pressed and not acknowledged is forgotten when the power goes: nobody wants an old `VOID`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from dollyd.simulators.tlp_device import TlpDevice, TlpOptions

KEYS = ("OPEN", "CLOSE", "NMB", "VOID", "CONFIRM", "PERMIT", "REJECT")
_OTHER_KEY = "HELP"
_STUCK_PRESSES = 5
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions(TlpOptions):
    """One console; `badge` is whose badge it holds at power-on, empty for nobody."""

    badge: str = ""
    model: str = "CN7"
    serial: str = "CN000009"


@dataclass(frozen=True, slots=True)
class Pressed:
    """A key as it was really pressed, or a badge as it was put on: the truth."""

    key: str
    """One of `KEYS`, or `BADGE`."""
    value: str
    """Round, or badge."""
    at_ns: int


class Console(TlpDevice):
    """The model. `script`: (nominal seconds after power-on, key or `BADGE`, round or badge), by time."""

    def __init__(
        self,
        options: ConsoleOptions,
        rng: Random,
        now_ns: int,
        script: Iterable[tuple[float, str, str]] = (),
    ) -> None:
        super().__init__("CN", "CONSOLE", options, rng, now_ns, "console")
        self.played: list[Pressed] = []
        self._badge = options.badge
        self._script = tuple(script)
        self._asked: list[tuple[str, str]] = []
        for _, key, _ in self._script:
            _check(key)
        self.power_on(now_ns)

    def press(self, key: str, round_shown: str = "") -> None:
        """A key goes down, and is sent within a quarter of a second. Without power nothing happens.

        Raises ValueError for a key that it does not have.
        """
        _check(key)
        if self.due_ns() is not None:
            self._asked.append((key, round_shown))

    def put_on(self, badge: str) -> None:
        """A badge lies on the reader; empty: it was taken away."""
        self.press("BADGE", badge)

    def status(self) -> tuple[str, ...]:
        """`badge,flags`."""
        return self._badge, self.mask

    def life(self) -> Iterator[float]:
        """The script of this power-on, and what hands press meanwhile."""
        self.state = 1
        if self._badge:
            self._send_key("BADGE", self._badge)
        due = list(self._script)
        passed_s = 0.0
        while True:
            while due and due[0][0] <= passed_s:
                self._go_down(*due.pop(0)[1:])
            while self._asked:
                self._go_down(*self._asked.pop(0))
            wait_s = min(_LOOK_S, due[0][0] - passed_s) if due else _LOOK_S
            yield wait_s
            passed_s += wait_s

    def abandon(self) -> None:
        """Keys that were not sent yet are forgotten."""
        self._asked.clear()

    def _go_down(self, key: str, value: str) -> None:
        self.played.append(Pressed(key, value, self.now_ns))
        if key == "BADGE":
            self._badge = "" if self.faults.take("console-badge-lost") else value
            self._send_key(key, self._badge)
            return
        match self.faults.take("console-other-key", "console-other-round", "console-key-stuck"):
            case "console-other-key":
                self._send_key(_OTHER_KEY, value)
            case "console-other-round":
                self._send_key(key, str(int(value or "0") + 7))
            case "console-key-stuck":
                for _ in range(_STUCK_PRESSES):
                    self._send_key(key, value)
            case _:
                self._send_key(key, value)

    def _send_key(self, key: str, value: str) -> None:
        self.announce("EVT", value, key, value)


def _check(key: str) -> None:
    if key not in KEYS and key != "BADGE":
        raise ValueError(f"no key {key!r} on this console; there are {', '.join(KEYS)}")
