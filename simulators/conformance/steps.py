"""What only a person can do to a device: the steps that `--interactive` asks for, after everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dollyd.simulators.conformance.forms import TALKERS
from dollyd.simulators.conformance.record import Record

_ALL = frozenset(TALKERS)


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `keeps_result`: the next result is not acknowledged before the device was switched off."""

    name: str
    ask: str
    talkers: frozenset[str]
    seen: Callable[[Record, Step], bool]
    keeps_result: bool = False
    boot: int = 0
    """Boots noticed when the step began."""
    lines: int = 0
    """Lines recorded when the step began."""

    def begun(self, record: Record) -> Step:
        """The same step, counted from now on."""
        boot = record.lines[-1].boot if record.lines else 0
        return replace(self, boot=boot, lines=len(record.lines))

    def over(self, record: Record) -> bool:
        """Whether it was done."""
        return self.seen(record, self)


def _fault_came_and_went(record: Record, step: Step) -> bool:
    masks = [line.field(1) for line in record.lines[step.lines :] if line.message == "FLT"]
    return len(masks) > 1 and set(masks[-1]) == {"0"}


def _rebooted(record: Record, step: Step) -> bool:
    return any(line.message == "HEL" and line.boot > step.boot for line in record.lines[step.lines :])


def _result_again(record: Record, step: Step) -> bool:
    """A result after the loss of power; also a loss without any result to be kept ends the step."""
    new = [line for line in record.lines[step.lines :] if line.message == "RES"]
    shown = any(line.boot == step.boot for line in new)
    again = [line for line in new if line.boot > step.boot]
    return len(again) > 1 if shown else _rebooted(record, step)


def _badge(record: Record, step: Step) -> bool:
    """A badge, and a heartbeat after it."""
    messages = [
        line.message
        for line in record.lines[step.lines :]
        if line.field(0) == "BADGE" or line.message == "STA"
    ]
    return "EVT" in messages and messages[-1] == "STA"


STEPS: tuple[Step, ...] = (
    Step("badge", "lay a badge on the console now", frozenset({"CN"}), _badge),
    Step(
        "fault",
        "make the device report a fault now (cover a sensor, unplug one), and mend it again",
        _ALL - {"OD"},
        _fault_came_and_went,
    ),
    Step(
        "power",
        "switch the device off now, wait for 3 seconds, and switch it on",
        frozenset({"CN"}),
        _rebooted,
    ),
    Step(
        "power",
        "play a game; when its result is shown, switch the device off, wait for 3 seconds, and switch it on",
        _ALL - {"CN"},
        _result_again,
        keeps_result=True,
    ),
)
"""In the order in which they are asked for."""
