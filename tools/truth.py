"""The truth of simulated wheels against the journal.

Every game that came to its end is a result, or the journal says why not:

    result               its round has a result, with the number that fell
    void: RULE           its round was unresolved by this rule (mostly `restart-in-mid-round`), then void
    gap: no round open   named or counted in a `gap` record: joined in mid-game, or the table was blocked
    gap: daemon down     it ended between the last game told before a kill and the `gap` record after it
    wheel lost           it ended between the last game told before `device-lost` and `device-back`
    port not open        it ended before the daemon, just started, had opened the port
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from dollyd.wire.stamp import NS_PER_S

NEAR_NS = 3 * NS_PER_S
"""Records so close to an unexplained game are told with it."""
_KEPT = ("game_ref", "outcome", "odds", "rule", "cause", "games", "count", "what", "device")


class SoakError(Exception):
    """A promise was broken; the text says which."""


def check(condition: bool, promise: str) -> None:
    """Raise `SoakError` naming the broken promise."""
    if not condition:
        raise SoakError(promise)


@dataclass(frozen=True, slots=True)
class Game:
    """A game as it really was; `number` is empty where the ball did not come to rest."""

    counter: int
    number: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What a record says that the truth bears on."""

    seq: int
    kind: str
    round: int
    mono_ns: int
    body: dict[str, Any]


def kept(record: dict[str, Any]) -> Kept:
    """What is kept of a record's payload: a long soak has many."""
    body = {name: record["body"][name] for name in _KEPT if name in record["body"]}
    if "outcome" in body:
        body["outcome"] = body["outcome"]["pocket"]
    if "odds" in body:
        body["odds"] = (body["odds"]["nonce"], body["odds"]["table"])
    at_ns = record["time"]["monotonic_ns"]
    return Kept(record["seq"], record["kind"], record["round"], at_ns, body)


class Watched(Protocol):
    """A table whose truth is known."""

    name: str

    @property
    def games(self) -> Sequence[Game]:
        """What was really played, in order."""
        ...

    @property
    def drawn(self) -> dict[str, int]:
        """The odds tables that the box drew, by nonce; empty where there is no box."""
        ...

    def was_unheard(self, game: Game) -> bool:
        """Whether nobody had the wheel's port open at some moment of the game."""
        ...


class Games:
    """The games of a wheel, found by what a record says of them: counters come again."""

    def __init__(self, games: Sequence[Game]) -> None:
        self._by_counter: defaultdict[int, list[Game]] = defaultdict(list)
        for game in games:
            self._by_counter[game.counter].append(game)

    def find(self, game_ref: str, before_ns: int) -> Game | None:
        """The latest game that `wheel/SESSION/COUNTER#ATTEMPT` can mean, begun before a moment."""
        fitting = self._by_counter[int(game_ref.rsplit("/", 1)[1].split("#", 1)[0])]
        place = bisect_right(fitting, before_ns, key=lambda game: game.start_ns)
        return fitting[place - 1] if place else None


class _Explained:
    """Why each game of a table is, or is not, a result; by the time of its start."""

    def __init__(self, table: Watched, records: Sequence[Kept]) -> None:
        self.why: dict[int, str] = {}
        self.unheard_ns: list[tuple[int, int, str]] = []
        """From, to, and what the journal says of it."""
        self.uncounted: list[tuple[int, int, int]] = []
        """Of gaps too long to name all games: from, to, and how many more there were."""
        self._told_ns = 0
        """End of the last game that the records read so far have told of."""
        self._lost_ns = 0
        self._started_ns = 0
        """When the daemon came up, until it has heard the wheel."""
        self._table = table
        self._records = records
        self._games = Games(table.games)

    def read(self) -> None:
        """Find the game of every round, and those of every gap. Raises `SoakError`."""
        rounds: defaultdict[int, list[Kept]] = defaultdict(list)
        for record in self._records:
            rounds[record.round].append(record)
        for before, record in pairwise(self._records):
            if record.kind == "round":
                self._read_round(record, rounds[record.round])
            elif record.kind == "gap":
                self._read_gap(before, record)
            elif record.kind == "incident" and record.body.get("device") == "wheel":
                self._read_incident(record)

    def _read_round(self, opened: Kept, records: Sequence[Kept]) -> None:
        name = f"{self._table.name}: round {opened.round}"
        game = self._games.find(opened.body["game_ref"], opened.mono_ns)
        check(game is not None, f"{name} is of a game that was played")
        if game is not None:
            check(game.start_ns not in self.why, f"{name} is the only one of game {game.counter}")
            self.why[game.start_ns] = _verdict(name, game, records)
            self._told_ns = max(self._told_ns, game.end_ns)

    def _read_gap(self, before: Kept, gap: Kept) -> None:
        if gap.body["cause"] == "daemon-down":
            self._nobody_heard(before.mono_ns, gap.mono_ns, "gap: daemon down")
            self._started_ns = gap.mono_ns
            return
        named_ns = before.mono_ns
        for game_ref in gap.body["games"]:
            game = self._games.find(game_ref, gap.mono_ns)
            if game is not None:
                self.why.setdefault(game.start_ns, "gap: no round open")
                named_ns = max(named_ns, game.end_ns)
                self._told_ns = max(self._told_ns, game.end_ns)
        unnamed = gap.body["count"] - len(gap.body["games"])
        if unnamed:
            self.uncounted.append((named_ns, gap.mono_ns, unnamed))

    def _read_incident(self, incident: Kept) -> None:
        if incident.body["what"] == "device-lost":
            # A connection may have been dead for long; a gap behind it names games of the next one.
            self._lost_ns = min(incident.mono_ns, self._told_ns)
        elif incident.body["what"] == "device-ready" and self._started_ns:
            self._nobody_heard(self._started_ns, incident.mono_ns, "started, wheel not yet heard")
            self._started_ns = 0
        elif incident.body["what"] == "device-back" and self._lost_ns:
            self._nobody_heard(self._lost_ns, incident.mono_ns, "wheel lost")
            self._lost_ns = 0

    def _nobody_heard(self, since_ns: int, until_ns: int, why: str) -> None:
        # On a busy machine games may have ended, unread in the port, before the last record was written.
        self.unheard_ns.append((min(since_ns, self._told_ns), until_ns, why))

    def count_unnamed(self) -> None:
        """Games that a long gap counts without their names are those after the last one that it names."""
        for since_ns, until_ns, count in self.uncounted:
            games = self._table.games
            first = bisect_right(games, since_ns, key=lambda game: game.end_ns)
            last = bisect_right(games, until_ns, key=lambda game: game.end_ns)
            for game in [one for one in games[first:last] if one.start_ns not in self.why][:count]:
                self.why[game.start_ns] = "gap: no round open"


def explain(table: Watched, records: Sequence[Kept]) -> Counter[str]:
    """Why each completed game of a table is, or is not, a result. Raises `SoakError`."""
    explained = _Explained(table, records)
    explained.read()
    explained.count_unnamed()
    return Counter(
        explained.why.get(game.start_ns) or _unheard(table, game, explained.unheard_ns, records)
        for game in table.games
        if game.number
    )


def _verdict(name: str, game: Game, records: Sequence[Kept]) -> str:
    result = next((record for record in records if record.kind == "result"), None)
    if result is None:
        rules = [record.body["rule"] for record in records if record.kind in ("unresolved", "void")]
        check(bool(rules) or not game.number, f"{name} of game {game.counter} has an end")
        return f"void: {rules[0]}" if rules else "still open"
    number = result.body["outcome"]
    check(number == game.number, f"{name} is {number}, but the ball fell into {game.number}")
    return "result"


def _unheard(
    table: Watched, game: Game, unheard_ns: Sequence[tuple[int, int, str]], records: Sequence[Kept]
) -> str:
    for since_ns, until_ns, why in unheard_ns:
        if since_ns <= game.end_ns <= until_ns:
            return why
    near = [
        f"  {(r.mono_ns - game.end_ns) / 1e9:+.3f} s  {r.seq} {r.kind} {r.round} {r.body}"
        for r in records
        if abs(r.mono_ns - game.end_ns) < NEAR_NS
    ]
    head = f"{table.name}: game {game.counter} is explained; around its end:"
    check(table.was_unheard(game), "\n".join([head, *near]))
    return "port not open"


def check_odds(table: Watched, records: Sequence[Kept]) -> None:
    """Every odds table in a result is the one that the box drew."""
    drawn = table.drawn
    for record in records:
        if record.kind == "result" and "odds" in record.body:
            nonce, number = record.body["odds"]
            check(drawn.get(nonce) == number, f"round {record.round} has the table that was drawn")
