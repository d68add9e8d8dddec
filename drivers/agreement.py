"""Two readings of one thing inside one draw: where they differ, nobody knows which of them is right.

Everything that a device says twice is compared, in this one form: the draw gets a defect, so that the round
is unresolved, and both readings stand in the witness's `details` under `differs_<what>`.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core.events import DrawFacts

DIFFERS = "differs_"


def both_kept(facts: DrawFacts, what: str, one: str, other: str) -> DrawFacts:
    """Facts with two readings of `what` that differ; of each thing the first such pair is kept.

    `one` and `other` name their sources, as in `RES 30`.
    """
    key = DIFFERS + what
    if any(known == key for known, _ in facts.details):
        return facts
    return replace(facts, details=(*facts.details, (key, f"{one}; {other}")))
