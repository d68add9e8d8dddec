"""The verdicts on a record, as a table for people and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dollyd.simulators.conformance.clauses import CLAUSES, Clause, Needs
from dollyd.simulators.conformance.findings import Fault, Tally, Verdict
from dollyd.simulators.conformance.record import Record

EXIT_PASSED, EXIT_FAILED, EXIT_NOT_SEEN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Judged:
    """One clause and what its check has found."""

    clause: Clause
    tally: Tally

    @property
    def verdict(self) -> Verdict:
        """Pass, fail or not seen."""
        return self.tally.verdict


def judge(record: Record) -> list[Judged]:
    """Every clause that is asked of this kind of device."""
    return [Judged(clause, clause.check(record)) for clause in CLAUSES if clause.asked_of(record.talker)]


def exit_code(judged: list[Judged], *, interactive: bool) -> int:
    """1 where a clause is broken; 2 where one was not seen that this test could have seen; else 0."""
    if any(one.verdict is Verdict.FAIL for one in judged):
        return EXIT_FAILED
    unseen = [one for one in judged if one.verdict is Verdict.NOT_SEEN]
    return EXIT_NOT_SEEN if any(interactive or not one.clause.needs for one in unseen) else EXIT_PASSED


def as_table(record: Record, judged: list[Judged]) -> str:
    """A line a clause, under it the first breach with its sentence, at the end the sum."""
    lines = [f"TLP/1 conformance, talker {record.talker}: {_identity(record)}", ""]
    for one in judged:
        lines.append(f"{one.verdict:9} {one.clause.id:5} {one.clause.text}{_needs(one)}")
        if one.tally.faults:
            lines += [f"{'':16}{text}" for text in _evidence(record, one.tally.faults)]
    sums = [f"{sum(one.verdict is verdict for one in judged)} {verdict}" for verdict in Verdict]
    return "\n".join([*lines, "", ", ".join(sums)])


def as_json(record: Record, judged: list[Judged], code: int) -> str:
    """The same as one object; all breaches, `at_ms` since the port was opened."""
    start_ns = record.opened_ns[0] if record.opened_ns else 0

    def breach(fault: Fault) -> dict[str, Any]:
        sentence = None if fault.line is None else fault.line.raw.decode("ascii", "backslashreplace")
        return {"at_ms": (fault.at_ns - start_ns) // 1_000_000, "why": fault.why, "sentence": sentence}

    clauses = [
        {
            "id": one.clause.id,
            "text": one.clause.text,
            "verdict": one.verdict,
            "seen": one.tally.seen,
            "needs": one.clause.needs,
            "faults": [breach(fault) for fault in one.tally.faults],
        }
        for one in judged
    ]
    report = {"talker": record.talker, "device": _identity(record), "exit": code, "clauses": clauses}
    return json.dumps(report, indent=2)


def _needs(one: Judged) -> str:
    unseen = one.verdict is Verdict.NOT_SEEN and one.clause.needs is not Needs.NOTHING
    return f"  (needs {one.clause.needs})" if unseen else ""


def _evidence(record: Record, faults: list[Fault]) -> list[str]:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    text = [f"at {record.clock(first.at_ns)}: {first.why}{more}"]
    return text if first.line is None else [*text, first.line.raw.decode("ascii", "backslashreplace")]


def _identity(record: Record) -> str:
    hello = next((line for line in record.of("HEL") if line.sentence is not None), None)
    if hello is None or hello.sentence is None:
        return "no HEL was heard" if record.lines else "nothing was heard"
    return " ".join(hello.sentence.fields[1:6])
