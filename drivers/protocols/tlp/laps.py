"""Laps of the ball, told three times: lap by lap, in each `STA`, and as the total in `RES` (tlp-1.md 6, 7).

The host's own count stands; what else the device says of it must agree.
"""

from __future__ import annotations

from dataclasses import replace

from dollyd.daemon.core.events import Defect, DrawFacts, TurnsBasis
from dollyd.drivers.protocols.tlp.device import whole_of
from dollyd.drivers.protocols.tlp.games import TlpGames


def one_more(turns_x100: int | None) -> int:
    """A whole turn on top of those counted so far."""
    return (turns_x100 or 0) + 100


def counts_agree(facts: DrawFacts, total: int | None, *, lost: bool) -> bool:
    """Whether the device's total is the host's count of laps; where events were lost it may be more."""
    counted = facts.ball_turns_x100
    if counted is None or total is None:
        return True
    return counted == 100 * total or (lost and counted < 100 * total)


def total_agrees(facts: DrawFacts, shown: int, *, lost: bool) -> bool:
    """Whether the laps in a `STA` are the host's count, within the one that is being told."""
    counted = facts.ball_turns_x100
    return counted is None or abs(100 * shown - counted) <= 100 or (lost and counted < 100 * shown)


def with_total(facts: DrawFacts, total: int | None, *, lost: bool) -> DrawFacts:
    """The host's count stands; the device's total stands in where there is none. Weaker of two bases."""
    counted = facts.ball_turns_x100 is not None or facts.wheel_turns_x100 is not None
    if facts.ball_turns_x100 is None and total is not None:
        facts = replace(facts, turns_basis=TurnsBasis.REPORTED, ball_turns_x100=100 * total)
    return replace(facts, turns_lower_bound=counted and lost)


class LapGames(TlpGames):
    """A device that counts the laps of a ball."""

    def _laps_shown(self, text: str) -> None:
        """The laps in a `STA` of the draw."""
        attempt, shown = self._own.attempt, whole_of(text)
        if attempt is None or shown is None:
            return
        lost = bool(self._own.missing)
        agree = total_agrees(attempt.facts, shown, lost=lost)
        self._laps_differ("laps_shown", f"STA {shown}", agree=agree)
        self._change(total=text)

    def _laps_told(self, laps: str, source: str) -> None:
        """A total, which the host's count and all that was shown before must bear out."""
        attempt, total = self._own.attempt, whole_of(laps)
        if attempt is None or total is None:
            return
        shown, lost = whole_of(attempt.total), bool(self._own.missing)
        agree = counts_agree(attempt.facts, total, lost=lost)
        self._laps_differ("laps", f"{source} {total}", agree=agree)
        doubt = Defect.COUNTS_DIFFER
        fewer = shown is not None and total < shown
        self._compare("laps_shown", f"{source} {total}", f"STA {shown}", agree=not fewer, doubt=doubt)

    def _laps_at_rest(self, laps: str) -> None:
        """The total in `RES`; it stands in where no lap was told."""
        self._laps_told(laps, "RES")
        if attempt := self._own.attempt:
            facts = with_total(attempt.facts, whole_of(laps), lost=bool(self._own.missing))
            self._change(facts=facts)

    def _laps_differ(self, what: str, told: str, *, agree: bool) -> None:
        attempt = self._own.attempt
        counted = attempt.facts.ball_turns_x100 if attempt else None
        text = f"counted {(counted or 0) // 100}"
        self._compare(what, told, text, agree=agree, doubt=Defect.COUNTS_DIFFER)
