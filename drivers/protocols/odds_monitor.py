"""Watches how often table 2 is drawn: a randomizer that has broken down must not decide another round.

Table 2 has the probability 1/30, independently in each round (rulebook 2.8; T64). What is watched:

    runs     5 times table 2, or 600 times table 1, one after the other
    counts   table 2 in each 3,000 draws: 69 or fewer, or 134 or more (expected 100, p <= 0.0006 on each side)

A sound generator is stopped by the counts once in 2.7 million draws, by the runs once in 25 million.
"""

from __future__ import annotations

from dataclasses import dataclass

TWOS_IN_A_ROW_MAX = 5
"""So many table-2 draws running have p = (1/30)^5 = 4e-8."""
ONES_IN_A_ROW_MAX = 600
"""So many draws without table 2 have p = (29/30)^600 = 1.5e-9."""
WINDOW = 3000
"""Draws that are counted together; the next count begins with the draw after."""
TOO_FEW = 69
"""P(69 or fewer of 3,000) = 0.00055, P(70 or fewer) = 0.00082."""
TOO_MANY = 134
"""P(134 or more of 3,000) = 0.00056, P(133 or more) = 0.00077."""


@dataclass(frozen=True, slots=True)
class OddsMonitor:
    """The draws of one generator so far; a frozen value."""

    draws: int = 0
    """Draws in this window."""
    twos: int = 0
    """How many of them were table 2."""
    run: int = 0
    """Draws of the same table in a row: positive for table 2, negative for table 1."""

    def after(self, table: int) -> OddsMonitor:
        """The monitor after one more draw. After an alarm everything is counted anew."""
        before = OddsMonitor() if self.alarm else self
        if before.draws == WINDOW:
            before = OddsMonitor(run=before.run)
        two = table == 2
        run = max(before.run, 0) + 1 if two else min(before.run, 0) - 1
        return OddsMonitor(before.draws + 1, before.twos + two, run)

    def reconnected(self) -> OddsMonitor:
        """The monitor after a technician has seen to the device: no run goes on, the count does."""
        return OddsMonitor(self.draws, self.twos)

    @property
    def alarm(self) -> str:
        """What is wrong, empty where nothing is."""
        if self.run >= TWOS_IN_A_ROW_MAX or self.run <= -ONES_IN_A_ROW_MAX:
            return "stuck"
        if self.draws == WINDOW and self.twos <= TOO_FEW:
            return "table-2-too-seldom"
        return "table-2-too-often" if self.twos >= TOO_MANY else ""
