"""What is missing in the data base, when to ask for it, and how far the site is told that all is archived.

Pure but for its log: times are monotonic seconds that the caller hands in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from dollyd.client.archive.store import Chain, Gap
from dollyd.client.stream.reader import REPLAYS_AT_ONCE, Request
from dollyd.client.stream.replay import LATER_S, REPLAY_MAX, Asker, Patience
from dollyd.daemon.host.logger import Logger

_LOG = Logger(__name__)


BUSY = "busy"
_BUSY_S = 5.0
"""Until a node that was busy is asked again."""


@dataclass(slots=True)
class _Probe:
    """A question whether a chain goes on with record `first`."""

    first: int
    id: str
    full: bool = False
    """All that was asked for exists, so there may be more."""
    busy_s: float = 0.0
    """When its node said that it was busy, 0 where it did not."""

    def again(self, first: int, now_s: float) -> bool:
        """Whether it is worth asking anew, from record `first`."""
        return (self.full and first > self.first) or (self.busy_s > 0 and now_s >= self.busy_s + _BUSY_S)


class Keeper:
    """Looks after the gaps of all chains, for all instances; one of them has it at a time."""

    def __init__(self, patience: Patience, rng: Random) -> None:
        self._patience = patience
        self._rng = rng
        self._askers: dict[str, Asker] = {}
        self._later: dict[str, tuple[int, float]] = {}
        """Chains whose gap was given up: its first record, and when to ask again."""
        self._probes: dict[str, _Probe] = {}
        """Of this link, by chain."""

    def probes(self, gaps: Iterable[Gap], chains: Iterable[Chain], now_s: float) -> list[Request]:
        """Ask whether chains without a gap go on.

        Of records that came before we listened nothing that is retained tells: those of an unresolved round.
        Once a link; again where an answer was full and has brought something, or its node was busy.
        """
        incomplete, due = {gap.chain for gap in gaps}, []
        for chain in newest(chains).values():
            first, known = chain.complete_to + 1, self._probes.get(chain.chain)
            if chain.broken or chain.chain in incomplete or not (known is None or known.again(first, now_s)):
                continue
            probe = self._probes[chain.chain] = _Probe(first, f"{self._rng.getrandbits(64):016x}")
            due.append(Request(chain.table, chain.chain, first, first + REPLAY_MAX - 1, probe.id))
            if len(due) == REPLAYS_AT_ONCE:
                break
        return due

    def requests(self, gaps: Iterable[Gap], now_s: float) -> tuple[list[Request], list[str]]:
        """What to ask for now; and chains of which somebody unknown spoke, and nobody has more."""
        gaps = [gap for gap in gaps if not self._is_for_later(gap, now_s)]
        self._askers = {gap.chain: self._askers.get(gap.chain) or self._asker() for gap in gaps}
        for gap in gaps:
            self._askers[gap.chain].look(gap.first, now_s, certain=gap.certain)
        on_their_way = sum(asker.waiting for asker in self._askers.values())
        due, untrue = [], []
        for gap in gaps:
            asker = self._askers[gap.chain]
            if asker.expired(now_s):
                self._give_up(gap, asker.why, now_s)
                if not gap.certain:
                    untrue.append(gap.chain)
            elif asker.due(now_s) and on_their_way < REPLAYS_AT_ONCE:
                on_their_way += 1
                due.append(Request(gap.table, gap.chain, gap.first, gap.last, asker.asked(now_s)))
        return due, untrue

    def ended(self, chain: str, id_: str, problem: str, now_s: float) -> None:
        """The answer to a request is complete."""
        probe = self._probes.get(chain)
        if probe is not None and probe.id == id_:
            probe.full, probe.busy_s = problem == "", now_s if problem == BUSY else 0.0
        if asker := self._askers.get(chain):
            asker.ended(id_, problem, now_s)

    def restart(self) -> None:
        """There is a new link: no answer to older requests is waited for."""
        self._askers.clear()
        self._probes.clear()

    def _asker(self) -> Asker:
        return Asker(self._patience, self._rng)

    def _is_for_later(self, gap: Gap, now_s: float) -> bool:
        first, until_s = self._later.get(gap.chain, (0, 0.0))
        return first == gap.first and now_s < until_s

    def _give_up(self, gap: Gap, why: str, now_s: float) -> None:
        known = self._later.get(gap.chain)
        if known is None or known[0] != gap.first:
            _LOG.warning(
                "history_missing", table=gap.table, chain=gap.chain, first=gap.first, last=gap.last, why=why
            )
        self._later[gap.chain] = (gap.first, now_s + LATER_S)
        self._askers[gap.chain].rest()


def newest(chains: Iterable[Chain]) -> dict[str, Chain]:
    """By table the chain to be acknowledged, where anything of it is complete."""
    return {chain.table: chain for chain in chains if chain.complete_to >= chain.begins}
