"""Every fault a simulator can show: one literal table, and the switchboard that models ask.

The numbers are those of part 4 of the device notes. Names that begin with `line-` spoil the bytes on the
way (`simulators.line`), `port-` names spoil the host's side of the port (`simulators.pty`), `clock-` names
its clock (`simulators.clock`). `tlp-` names belong to all devices of that protocol, `odds-`, `wheel-`
(TLP/1), `detector-`, `money-`, `dice-`, `console-` and `rng-` names to the device that they name, all others
to the SlingShot 2.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """`entries` are the fault numbers it shows.

    `device` is the kind that has it, or `line` (any device), `port` (any serial device), `clock` (a virtual
    one), `tlp` (any TLP/1 device but the odds box),
    `tlp-game` (those that play games), `tlp-count` (those that count laps or sectors).
    """

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
    # TLP/1: what any device of `simulators.tlp_device` can do. Each strikes once.
    "tlp-bad-crc": Fault("tlp", (11,), "the next result or key comes three times with a wrong CRC"),
    "tlp-ack-lost": Fault("tlp", (46, 49), "the next three acknowledgements are not heard"),
    "tlp-silent": Fault("tlp", (15,), "silent and deaf until a power cycle"),
    "tlp-heartbeat-gap": Fault("tlp", (15,), "five heartbeats are missing"),
    "tlp-power-cut": Fault("tlp", (23, 38, 42, 46), "power lost at once; boots 10 s later"),
    "tlp-other-device": Fault("tlp", (25, 29), "another serial number says hello on the same port"),
    "tlp-wrong-game": Fault("tlp-game", (47,), "the result is for a game that is not played"),
    "tlp-result-missing": Fault("tlp-game", (41, 43), "state 5, but no result is sent"),
    "tlp-result-again": Fault("tlp-game", (31,), "the same result as a second, new sentence"),
    "tlp-counter-jump": Fault("tlp-game", (38,), "the game number skips five"),
    "tlp-counter-repeat": Fault("tlp-game", (38,), "the next game has the number of the one before"),
    "tlp-counter-reset": Fault("tlp-game", (38,), "the next game is 0001"),
    "tlp-lost-events": Fault("tlp-count", (3, 19), "the next two laps, turns or passes are lost on the way"),
    # The TLP/1 wheel. Each strikes once, in the next game that comes to the right place.
    "wheel-launch-fails": Fault("tlp-wheel", (37, 43), "flag 08 in state 2, relaunch, then a result"),
    "wheel-launch-given-up": Fault(
        "tlp-wheel", (37, 43), "flag 08 in state 2, then 6; the game has no result"
    ),
    "wheel-few-laps": Fault("tlp-wheel", (35,), "the ball makes one to three laps"),
    "wheel-same-direction": Fault("tlp-wheel", (35,), "the ball runs with the rotor: flag 02, then a result"),
    "wheel-second-ball": Fault("tlp-wheel", (35,), "flag 40 before the ball falls, then a result"),
    "wheel-sensors-disagree": Fault("tlp-wheel", (35, 40), "flag 80 before the ball falls, then a result"),
    "wheel-ball-out": Fault("tlp-wheel", (34, 36), "the ball leaves the wheel: flag 01, then 6"),
    "wheel-sensor-fault": Fault("tlp-wheel", (34,), "flag 04, then 6"),
    "wheel-rotor-stops": Fault("tlp-wheel", (35, 44), "the rotor stands: speed 0, flag 10, then a result"),
    "wheel-rotor-races": Fault("tlp-wheel", (44,), "the rotor runs away: flag 20, then 6"),
    "wheel-direction-flips": Fault("tlp-wheel", (45,), "the rotor turns round under the ball, no flag"),
    "wheel-quiet-stop": Fault("tlp-wheel", (36,), "6 without any flag before the ball falls"),
    "wheel-flag-blinks": Fault("tlp-wheel", (34,), "flag 01 comes and goes with no heartbeat between"),
    "wheel-stuck-in-2": Fault("tlp-wheel", (43,), "state 2 for an hour"),
    "wheel-stuck-in-4": Fault("tlp-wheel", (43,), "the ball has left the rim, and nothing comes for an hour"),
    "wheel-jump-2-5": Fault("tlp-wheel", (36,), "state 2 to 5, a result without a lap"),
    "wheel-jump-3-2": Fault(
        "tlp-wheel", (36, 41), "the ball fell, but the next game begins without a result"
    ),
    "wheel-number-early": Fault("tlp-wheel", (32,), "the number before stands in the heartbeats of the game"),
    "wheel-number-blank": Fault("tlp-wheel", (33,), "a result without a number"),
    "wheel-number-off-wheel": Fault("tlp-wheel", (39,), "number 37, or 10 from a boule bowl"),
    "wheel-number-changes": Fault("tlp-wheel", (48,), "a second result with another number, seconds later"),
    "wheel-counts-differ": Fault("tlp-wheel", (40,), "the result claims two laps more than there were"),
    # The ball detector. Each strikes the next run of the ball, once.
    "detector-misses-laps": Fault("ball-detector", (40,), "two passages in mid-run are not seen"),
    "detector-one-too-many": Fault("ball-detector", (40,), "one passage is seen twice"),
    "detector-wrong-direction": Fault("ball-detector", (45,), "the other direction than the ball's"),
    "detector-counts-differ": Fault("ball-detector", (40,), "the result claims a lap more than its events"),
    "detector-sees-nothing": Fault("ball-detector", (15, 43), "a whole run is not seen"),
    "detector-no-drop": Fault("ball-detector", (43,), "laps, but no drop for an hour"),
    "detector-ball-lost": Fault("ball-detector", (34, 35), "flag 01 in mid-run"),
    "detector-sensor-fault": Fault("ball-detector", (34, 35), "flag 04 in mid-run"),
    "detector-second-ball": Fault("ball-detector", (35,), "flag 40 in mid-run"),
    # The money wheel. Each strikes the next spin, once.
    "money-few-turns": Fault("money-wheel", (52,), "one pass short of four turns: 3.98, flag 01"),
    "money-exactly-enough": Fault("money-wheel", (52,), "four turns to the sector: 4.00, which is enough"),
    "money-one-turn": Fault("money-wheel", (52,), "between one turn and two, flag 01"),
    "money-on-pin": Fault("money-wheel", (52,), "the pointer rests on a pin: no sector, flag 04"),
    "money-touched": Fault("money-wheel", (52,), "somebody touches it: it stops early, flag 20"),
    "money-reversed": Fault("money-wheel", (45, 52), "it turns round in mid-spin, flag 02"),
    "money-runaway": Fault("money-wheel", (44, 52), "it gets faster and faster, flag 10, then 6"),
    "money-home-mismatch": Fault("money-wheel", (52,), "a sector passes unseen, flag 08"),
    "money-motor": Fault("money-wheel", (34, 52), "flag 40 at the release, then 6"),
    "money-52-sectors": Fault("money-wheel", (29, 52), "a wheel of 52 sectors from the next game on"),
    "money-sector-blank": Fault("money-wheel", (33,), "a result without a sector and without flag 04"),
    "money-sector-off-wheel": Fault("money-wheel", (39,), "a sector that the wheel does not have"),
    "money-sector-changes": Fault("money-wheel", (48,), "a second result with another sector, seconds later"),
    "money-counts-differ": Fault("money-wheel", (40,), "the result claims one and a half turns more"),
    # The dice. The first seven happen to the throw, so that every camera sees them; the others to one camera.
    "dice-cocked": Fault("dice-camera", (51,), "a die leans on an edge: no face, flag 01"),
    "dice-stacked": Fault("dice-camera", (51,), "a die lies on another: one has no face, flag 02"),
    "dice-one-missing": Fault("dice-camera", (51,), "a die left the table: no face, flag 04"),
    "dice-outside": Fault("dice-camera", (51,), "a die lies outside the area: flag 100"),
    "dice-apart": Fault("dice-camera", (51,), "not released together: flag 200"),
    "dice-not-shaken": Fault("dice-camera", (51,), "flag 80"),
    "dice-foreign": Fault("dice-camera", (51,), "something else lies there: flag 40"),
    "dice-unread": Fault("dice-camera", (12, 51), "a face with little confidence"),
    "dice-misread": Fault("dice-camera", (12, 51), "a wrong face with full confidence"),
    "dice-off-die": Fault("dice-camera", (39,), "a face 7"),
    "dice-covered": Fault("dice-camera", (51,), "a hand before the lens: no face, flag 10"),
    "dice-empty": Fault("dice-camera", (33, 51), "a result without any face"),
    "dice-frozen": Fault("dice-camera", (51,), "the picture of the throw before, flag 20"),
    "dice-frozen-unseen": Fault("dice-camera", (32, 51), "the picture of the throw before, no flag"),
    "dice-still-moving": Fault("dice-camera", (51,), "a result while the dice roll: flag 08"),
    "dice-other-number": Fault("dice-camera", (51,), "the result claims one die more than it has faces for"),
    "dice-stuck-moving": Fault("dice-camera", (43,), "state 3 for an hour"),
    # The dealer console. Each strikes the next key, once.
    "console-other-key": Fault("console", (13,), "a key that the protocol does not have"),
    "console-other-round": Fault("console", (47,), "the key names another round"),
    "console-key-stuck": Fault("console", (31,), "one press is sent as five"),
    "console-badge-lost": Fault("console", (33,), "the badge reads as nobody"),
    # Generators. Each lasts until it is cleared.
    "rng-stuck": Fault("generator", (53,), "one byte value for ever"),
    "rng-biased": Fault("generator", (53,), "three ones to one zero"),
    "rng-repeats": Fault("generator", (53,), "the same block of 64 bytes again and again"),
    "rng-stalls": Fault("generator", (15, 53), "nothing comes"),
    "rng-knocked": Fault(
        "generator", (30,), "text of readings instead of random bytes, as after an accidental knock of speeds"
    ),
    "rng-short-reads": Fault("generator", (2,), "a few bytes at a time"),
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
    # The port as the host has it. Each lasts until it is cleared, but for the new number.
    "port-jammed": Fault("port", (18,), "CTS stays low: nothing that the host writes is taken"),
    "port-missing": Fault("port", (22,), "the port's name is gone, the device lives on"),
    "port-denied": Fault("port", (22,), "nobody but root may open the port"),
    "port-busy": Fault("port", (22,), "another program has locked the port"),
    "port-renumbered": Fault("port", (24,), "unplugged, and back under another number (once)"),
    "port-thief": Fault("port", (26,), "another program has the port open too, and reads some of its bytes"),
    "port-reset-on-open": Fault("port", (28,), "the device boots whenever the host opens the port"),
    # The host's clock, where it is a virtual one.
    "clock-jump": Fault("clock", (21,), "UTC is an hour ahead until it is cleared"),
}


def names(device: str) -> list[str]:
    """The faults of one device, in the order of the table."""
    return [name for name, fault in FAULTS.items() if fault.device == device]


class Switchboard:
    """The faults that are set on one model. Device faults are taken, and gone; line faults stay.

    `devices`: the parts of the table that this model can show, its own and those it shares with others.
    """

    def __init__(self, *devices: str) -> None:
        self._devices = devices
        self._set: list[str] = []

    def set(self, name: str) -> None:
        """Switch a fault on. Raises ValueError for a name that this device does not have."""
        if name not in FAULTS or FAULTS[name].device not in self._devices:
            raise ValueError(f"{self._devices[0]} has no fault {name!r}")
        self._set.append(name)

    def clear(self, name: str) -> None:
        """Switch a fault off again; nothing happens where it is not on."""
        self._set = [other for other in self._set if other != name]

    def on(self, name: str) -> bool:
        """Whether the fault is set."""
        return name in self._set

    @property
    def names(self) -> tuple[str, ...]:
        """The faults that are set, in order."""
        return tuple(self._set)

    def take(self, *names: str) -> str | None:
        """The first of these faults that is set, which is no longer so afterwards; or None."""
        for name in names:
            if name in self._set:
                self._set.remove(name)
                return name
        return None
