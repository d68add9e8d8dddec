"""What a check finds: how often a clause was seen, and each time that it was broken."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dollyd.simulators.conformance.record import Line


class Verdict(StrEnum):
    """Of one clause."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True)
class Fault:
    """One breach. `line` is the offending sentence, None where it is one that did not come."""

    why: str
    at_ns: int
    line: Line | None = None


@dataclass(slots=True)
class Tally:
    """The count of a check; it fails by one fault, and passes where the clause was seen at all."""

    seen: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """Fail, pass or not seen."""
        if self.faults:
            return Verdict.FAIL
        return Verdict.PASS if self.seen else Verdict.NOT_SEEN

    def look(self, line: Line, why: str) -> None:
        """One more sentence was looked at; `why` says how it breaks the clause, empty where it does not."""
        self.seen += 1
        if why:
            self.faults.append(Fault(why, line.at_ns, line))

    def missing(self, at_ns: int, why: str) -> None:
        """Something that should have come by this time did not."""
        self.seen += 1
        self.faults.append(Fault(why, at_ns))
