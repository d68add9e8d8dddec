"""Every fault a simulator can show: one literal table, and the switchboard that models ask.

The numbers are those of part 4 of the device notes. Names that begin with `line-` spoil the bytes on the
way (`simulators.line`), `odds-` names belong to the odds box, all others to the SlingShot 2.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """`device` is `ss2`, `odds-box` or `line` (any device); `entries` are the fault numbers it shows."""

    device: str
    entries: tuple[int, ...]
    summary: str


FAULTS: dict[str, Fault] = {
    # The wheel. Each strikes once, in the next game that comes to the right place.
    "launch-failed": Fault("ss2", (37, 43), "flag 8 in state 2 for 25 s or more, relaunch, then a result"),
    "launch-given-up": Fault("ss2", (37, 43), "flag 8 in state 2, then closed (6) under the same counter"),
    "ball-with-rotor": Fault("ss2", (34, 37), "flag 2 in state 2, then 8, relaunch, then a result"),
    "ball-lost": Fault("ss2", (34, 44), "flag 1 for one line, 7 s later flag 4, then 6; 4 kept until *P 1"),
    "ball-blinks": Fault("ss2", (34,), "flag 1 blinks seven times in state 4, then 6 without any flag"),
    "ball-blink-result": Fault("ss2", (34,), "flag 1 for one line in state 4, then an ordinary result"),
    "ball-gone": Fault("ss2", (34, 43), "flag 1 stays for 75 s in state 4, then 6"),
    "sensor-in-1": Fault("ss2", (34,), "flag 4 in state 1 for 4 s, then 6"),
    "sensor-in-4": Fault("ss2", (34,), "flag 4 without flag 1 in state 4, then 6"),
    "runaway": Fault("ss2", (44,), "the rotor runs away in state 4, past 953 to 000, then flag 4, then 6"),
    "rotor-stops": Fault("ss2", (44,), "the rotor stands in state 4, then an ordinary result"),
    "quiet-stop": Fault("ss2", (36,), "state 4 to 6 without any flag"),
    "host-close-in-2": Fault("ss2", (37,), "another console sends *P 0 in state 2"),
    "host-close-in-4": Fault("ss2", (37,), "another console sends *P 0 in state 4"),
    "stuck-in-2": Fault("ss2", (43,), "state 2 for ten minutes, then the game goes on"),
    "stuck-in-4": Fault("ss2", (43,), "state 4 without end"),
    "flag-8-in-3": Fault("ss2", (34,), "flag 8 in the first lines of state 3, which the maker lets pass"),
    "flag-8-stays": Fault("ss2", (35,), "flag 8 all through state 3, then a result"),
    "flag-in-result": Fault("ss2", (35,), "flag 4 in every line of state 5"),
    "bare-differs": Fault("ss2", (40,), "the bare number is another one than that of the status lines"),
    "bare-missing": Fault("ss2", (41,), "no bare number"),
    "result-missing": Fault("ss2", (41, 36), "a bare number, but no line of state 5"),
    "number-flips": Fault("ss2", (12, 31), "one line of state 5 shows another number of the wheel"),
    "number-changes": Fault("ss2", (12, 48), "half of the lines of state 5 show another number"),
    "number-blank": Fault("ss2", (33,), "state 5 with a blank number, and no bare number"),
    "number-off-wheel": Fault("ss2", (39,), "`37`, which is on no wheel, as bare number and in state 5"),
    "counter-jump": Fault("ss2", (38,), "the counter skips five numbers after the game"),
    "counter-repeat": Fault("ss2", (38,), "the counter stays after a complete game"),
    "jump-2-5": Fault("ss2", (36,), "state 2 to 5: lines in between are lost"),
    "jump-3-2": Fault("ss2", (36,), "state 3 to the next game's 2: lines in between are lost"),
    "jump-4-2": Fault("ss2", (36,), "state 4 to the next game's 2: bare number and result are lost"),
    "direction-flip": Fault("ss2", (45,), "the direction bit flips for one line of state 4"),
    "silent-death": Fault("ss2", (15,), "silent and deaf from the middle of state 4 until a power cycle"),
    "power-cut": Fault(
        "ss2", (38, 42), "power lost in state 4; boots 10 s later, counter and number are gone"
    ),
    # The odds box. Each strikes the next draw, once.
    "odds-no-answer": Fault("odds-box", (53,), "the request is never answered"),
    "odds-late-answer": Fault("odds-box", (53,), "the answer comes 20 s late"),
    "odds-two-answers": Fault("odds-box", (53,), "a second, different answer to the same request"),
    "odds-counter-gap": Fault("odds-box", (53,), "the draw counter skips a number"),
    "odds-counter-repeat": Fault("odds-box", (53,), "the draw counter stays"),
    "odds-bad-mac": Fault("odds-box", (53,), "the proof does not fit the answer"),
    "odds-wrong-nonce": Fault("odds-box", (53,), "the answer carries another nonce"),
    "odds-wrong-game": Fault("odds-box", (47, 53), "the answer is for another game"),
    "odds-bad-table": Fault("odds-box", (53,), "odds table 3"),
    "odds-stuck": Fault("odds-box", (53,), "odds table 2 in every draw from now on"),
    "odds-health": Fault(
        "odds-box", (53,), "ODFLT 01: the generator's own health test failed; no answer until a power cycle"
    ),
    "odds-unasked": Fault("odds-box", (47, 53), "an answer for a game that nobody asked for (at once)"),
    "odds-reboot": Fault("odds-box", (25, 53), "a new boot id and HEL instead of the answer"),
    "odds-bad-crc": Fault("odds-box", (11,), "three answers with a wrong CRC, then the right one"),
    # The line, for any device. Each lasts until it is cleared.
    "line-bytes": Fault("line", (2,), "every byte alone, 1 ms apart"),
    "line-chunks": Fault("line", (2, 20), "chunks of 1 to 8 bytes, 16 ms apart"),
    "line-stall": Fault("line", (3, 16), "nothing for 5 s, then all of it in one burst, over and over"),
    "line-flood": Fault("line", (16,), "now and then a line comes 200 times at once"),
    "line-old-frames": Fault("line", (16,), "60 lines are held back, then come in one burst (once)"),
    "line-silence": Fault("line", (15,), "nothing passes"),
    "line-head-lost": Fault("line", (1, 5), "lines lose their head"),
    "line-tail-lost": Fault("line", (6,), "lines lose their tail, but not their end"),
    "line-splice": Fault("line", (19,), "the end of a line and the head of the next are lost together"),
    "line-restart": Fault("line", (4,), "a line breaks off and starts again, on the same line"),
    "line-drop": Fault("line", (9,), "single bytes are lost"),
    "line-flip": Fault("line", (9, 12), "single bits flip"),
    "line-insert": Fault("line", (9,), "single bytes too many"),
    "line-garbage": Fault("line", (9,), "NUL, 0xFF and 8-bit bytes between the lines"),
    "line-break": Fault("line", (10,), "a break reads as a single NUL inside a line"),
    "line-wrong-baud": Fault("line", (9,), "nothing readable, as at a wrong speed"),
    "line-noise": Fault("line", (8, 17), "random bytes at full speed, all the time"),
    "line-cr": Fault("line", (7,), "lines end in CR"),
    "line-lf": Fault("line", (7,), "lines end in LF"),
    "line-lfcr": Fault("line", (7,), "lines end in LF CR"),
    "line-doubled": Fault("line", (7,), "lines end in CR LF CR LF"),
    "line-no-end": Fault("line", (8,), "lines do not end"),
    "line-replies": Fault("line", (13, 50), "answers to commands that the host never sent"),
    "line-modem": Fault("line", (13, 27), "the AT text of a modem probe"),
    "line-echo": Fault("line", (14,), "the host hears its own bytes"),
}


def names(device: str) -> list[str]:
    """The faults of one device, in the order of the table."""
    return [name for name, fault in FAULTS.items() if fault.device == device]


class Switchboard:
    """The faults that are set on one model. Device faults are taken, and gone; line faults stay."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._set: list[str] = []

    def set(self, name: str) -> None:
        """Switch a fault on. Raises ValueError for a name that this device does not have."""
        if name not in FAULTS or FAULTS[name].device != self._device:
            raise ValueError(f"{self._device} has no fault {name!r}")
        self._set.append(name)

    def clear(self, name: str) -> None:
        """Switch a fault off again; nothing happens where it is not on."""
        self._set = [other for other in self._set if other != name]

    def on(self, name: str) -> bool:
        """Whether the fault is set."""
        return name in self._set

    def take(self, *names: str) -> str | None:
        """The first of these faults that is set, which is no longer so afterwards; or None."""
        for name in names:
            if name in self._set:
                self._set.remove(name)
                return name
        return None
