"""What must have been seen of every game for `dollyd demo --all` to be a success: one literal table.

What really came is worked out here from the device's own story, apart from the code that the daemon uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dollyd.simulators.demo.evidence import PROOFS, Expectation, Record, Seen, lacking
from dollyd.simulators.demo.pit import Happened, Truth
from dollyd.simulators.demo.tables import TABLES
from dollyd.simulators.layouts import layout

RESULTS_MIN = 3
_RED = frozenset(layout("roulette-european", "red"))
_SYMBOLS = layout("money-wheel-synthetic", "sectors")
_ENDS = ("result", "void", "unresolved", "throw-rejected")

Outcome = dict[str, Any]


# --- what a device's own story means -----------------------------------------------------------------


def _roulette(happened: Happened) -> Outcome:
    pocket = str(happened.get("number") or happened["pocket"]).strip()
    return {"pocket": pocket, "colour": "green" if pocket == "0" else "red" if pocket in _RED else "black"}


def _boule(happened: Happened) -> Outcome:
    return {"number": happened["number"], "cup": happened["pocket"]}


def _money_wheel(happened: Happened) -> Outcome:
    return {"sector": happened["sector"], "symbol": _SYMBOLS[happened["sector"] - 1]}


def _dice(happened: Happened) -> Outcome:
    return {f"die_{place}": face for place, face in enumerate(happened["faces"], 1)}


def _two_dice(happened: Happened) -> Outcome:
    total = sum(happened["faces"])
    return _dice(happened) | {"sum": total, "pair": len(set(happened["faces"])) == 1}


def _tuplanoppa(happened: Happened) -> Outcome:
    dice = _two_dice(happened)
    return dice | {"under_over": "under" if dice["sum"] < 7 else "over" if dice["sum"] > 7 else "seven"}


def _sic_bo(happened: Happened) -> Outcome:
    total, triple = sum(happened["faces"]), len(set(happened["faces"])) == 1
    size = "none" if triple else "small" if total <= 10 else "big"
    return _dice(happened) | {"total": total, "triple": triple, "size": size}


_MEANING: dict[str, Callable[[Happened], Outcome]] = {
    "roulette": _roulette,
    "boule": _boule,
    "money-wheel": _money_wheel,
    "tuplanoppa": _tuplanoppa,
    "sic-bo": _sic_bo,
    "craps": _two_dice,
}
"""By game, which the name of a table tells."""


def completed(games: Truth, table: str) -> list[Happened]:
    """The games of a table's reader that came to an outcome, in order."""
    reader = TABLES[table].reader
    return [h for h in games[table] if h.get("device") == reader and h.get("outcome") == "completed"]


def came(games: Truth, table: str, at_ns: int) -> Outcome:
    """What lay there at a monotonic time, empty where nothing had been played yet."""
    before = [happened for happened in completed(games, table) if happened["end_ns"] <= at_ns]
    return _MEANING[table.rpartition("-")[0]](before[-1]) if before else {}


# --- one function an expectation ---------------------------------------------------------------------


def _results(seen: Seen[Truth], table: str) -> str:
    """Enough results, each as it really came."""
    results = seen.records("result", table)
    for result in results:
        outcome, at_rest = result["body"]["outcome"], result["body"]["evidence"]["times"]["at_rest"]
        real = came(seen.games, table, at_rest["monotonic_ns"])
        if not real or not real.items() <= outcome.items():
            return f"round {result['round']} says {outcome}, it was {real}"
    if len(results) < RESULTS_MIN:
        return f"{len(results)} results"
    return _unexplained(seen, table)


def _unexplained(seen: Seen[Truth], table: str) -> str:
    """Every game that was heard from its begin on is in a record."""
    ends = [record for kind in _ENDS for record in seen.records(kind, table)]
    reader = next(
        w["device"] for w in seen.records("result", table)[0]["body"]["evidence"]["witnesses"] if w["value"]
    )
    told = {w["game"] for r in ends for w in r["body"]["evidence"]["witnesses"] if w["device"] == reader}
    told |= {game for r in seen.records("gap", table) for game in r["body"]["games"]}
    told = {game for game in told if game.startswith(f"{reader}/")}
    heard_ns = seen.records("round", table)[0]["time"]["monotonic_ns"]
    played = [game for game in completed(seen.games, table) if game["end_ns"] > heard_ns]
    return "" if len(told) >= len(played) else f"{len(played)} games played, {len(told)} in records"


def _ended(seen: Seen[Truth], table: str, kind: str, *rules: str) -> str:
    """Rounds, or throws, that ended by these rules."""
    found = {record["body"]["rule"] for record in seen.records(kind, table)}
    return lacking(f"{kind} by rule", set(rules) - found)


def _declared_by(seen: Seen[Truth], table: str, kind: str, person: str) -> str:
    persons = {record["body"].get("declared_by") for record in seen.records(kind, table)}
    return lacking(f"{kind} declared by", {person} - persons)


def _both_odds(seen: Seen[Truth], table: str) -> str:
    drawn = {record["body"]["odds"]["table"] for record in seen.records("result", table)}
    return lacking("result with odds table", {1, 2} - drawn)


def _host_draw(seen: Seen[Truth], table: str) -> str:
    """A draw for each result, each of its own."""
    draws = [record["body"]["odds"] for record in seen.records("result", table)]
    good = all(draw["device"] == "odds" and draw["table"] in (1, 2) and draw["proof"] for draw in draws)
    return "" if draws and good and len({draw["counter"] for draw in draws}) == len(draws) else f"{draws}"


def _witnesses(seen: Seen[Truth], table: str, values: dict[str, bool]) -> str:
    """Each result names these witnesses, and whether each has read the outcome."""
    for result in seen.records("result", table):
        said = {w["device"]: bool(w["value"]) for w in result["body"]["evidence"]["witnesses"]}
        if said != values:
            return f"round {result['round']} has {said}"
    return ""


def _counted_turns(seen: Seen[Truth], table: str, key: str, at_least_x100: int) -> str:
    """The host counted the turns itself, and there were enough."""
    for result in seen.records("result", table):
        counts = [w for w in result["body"]["evidence"]["witnesses"] if w["turns_basis"] == "counted"]
        if not counts or any(w.get(key, 0) < at_least_x100 for w in counts):
            return f"round {result['round']} has {counts}"
    return ""


def _by_dealer(seen: Seen[Truth], table: str, person: str) -> str:
    evidence = [record["body"]["evidence"] for record in seen.records("result", table)]
    others = {(e["bets_closed_by"], e["confirmed_by"]) for e in evidence} - {(person, person)}
    return f"done by {others}" if others else ""


def _phases(seen: Seen[Truth], table: str) -> str:
    """Phase and point at the start of each roll, worked out again; rejected throws change nothing."""
    point: int | None = None
    phases = set()
    for result in seen.records("result", table):
        outcome: Record = result["body"]["outcome"]
        phase = ("come-out", None) if point is None else ("point", point)
        if (outcome["phase"], outcome.get("point")) != phase:
            return f"round {result['round']} says {outcome}, it was {phase}"
        phases.add(outcome["phase"])
        if point is None:
            point = outcome["sum"] if outcome["sum"] in (4, 5, 6, 8, 9, 10) else None
        elif outcome["sum"] in (point, 7):
            point = None
    return lacking("roll in phase", {"come-out", "point"} - phases)


def _at(table: str, check: Callable[..., str], *told: Any) -> Callable[[Seen[Truth]], str]:
    """A check of one table."""
    return lambda seen: check(seen, table, *told)


EXPECTATIONS: tuple[Expectation[Truth], ...] = (
    ("roulette B, odds box: results as the wheel threw them", _at("roulette-1", _results)),
    ("roulette B, odds box: results with odds table 1 and with odds table 2", _at("roulette-1", _both_odds)),
    ("roulette B, odds box: a lost ball is void", _at("roulette-1", _ended, "void", "device-fault")),
    ("roulette B, host draws: results as the wheel threw them", _at("roulette-2", _results)),
    ("roulette B, host draws: one draw of its own for each result", _at("roulette-2", _host_draw)),
    (
        "roulette B, host draws: a wheel that is shut down in mid-spin is void",
        _at("roulette-2", _ended, "void", "draw-abandoned"),
    ),
    ("roulette C, ball detector: results as the wheel threw them", _at("roulette-3", _results)),
    (
        "roulette C, ball detector: it has watched every result",
        _at("roulette-3", _witnesses, {"wheel": True, "ball": False}),
    ),
    (
        "roulette C, ball detector: the host counted four turns for every result",
        _at("roulette-3", _counted_turns, "ball_turns_x100", 400),
    ),
    ("roulette C, ball detector: too few turns are void", _at("roulette-3", _ended, "void", "too-few-turns")),
    ("roulette D, two readers: results as the wheel threw them", _at("roulette-4", _results)),
    (
        "roulette D, two readers: both have read every result",
        _at("roulette-4", _witnesses, {"wheel": True, "display": True}),
    ),
    (
        "roulette D, two readers: a ball in the rotor's direction is void",
        _at("roulette-4", _ended, "void", "ball-with-rotor"),
    ),
    ("roulette A, display: results as the wheel threw them", _at("roulette-5", _results)),
    (
        "roulette A, display: the dealer closed the bets and confirmed every result",
        _at("roulette-5", _by_dealer, "console:dealer-5"),
    ),
    ("roulette A, display: too few turns are void", _at("roulette-5", _ended, "void", "too-few-turns")),
    (
        "roulette A, display: the dealer declares a round void",
        _at("roulette-5", _declared_by, "void", "console:dealer-5"),
    ),
    ("boule: results with number and cup as they came", _at("boule-1", _results)),
    ("boule: a second ball is void", _at("boule-1", _ended, "void", "foreign-object")),
    ("money wheel: results with sector and symbol as they came", _at("money-wheel-1", _results)),
    (
        "money wheel: the host counted four turns for every result",
        _at("money-wheel-1", _counted_turns, "wheel_turns_x100", 400),
    ),
    (
        "money wheel: 215 of 216 sectors are void, and a pointer between two sectors",
        _at("money-wheel-1", _ended, "void", "too-few-turns", "between-sectors"),
    ),
    ("tuplanoppa: results as the dice lay", _at("tuplanoppa-1", _results)),
    (
        "tuplanoppa: a die on its edge is thrown again, and a throw that the dealer rejects",
        _at("tuplanoppa-1", _ended, "throw-rejected", "cocked", "rejected-by-person"),
    ),
    (
        "tuplanoppa: the dealer who rejected it is named",
        _at("tuplanoppa-1", _declared_by, "throw-rejected", "console:dealer-8"),
    ),
    ("sic bo: results as the dice lay", _at("sic-bo-1", _results)),
    ("sic bo: a die on another is thrown again", _at("sic-bo-1", _ended, "throw-rejected", "stacked")),
    ("craps: results as the dice lay", _at("craps-1", _results)),
    ("craps: phase and point at the start of every roll", _at("craps-1", _phases)),
    (
        "craps: both cameras have read every result",
        _at("craps-1", _witnesses, {"camera-1": True, "camera-2": True}),
    ),
    (
        "craps: a die outside the area is thrown again",
        _at("craps-1", _ended, "throw-rejected", "outside-area"),
    ),
    (
        "craps: cameras that disagree leave the roll unresolved",
        _at("craps-1", _ended, "unresolved", "witnesses-disagree"),
    ),
    ("craps: what nobody can know is void in the end", _at("craps-1", _ended, "void", "unrecoverable")),
    *PROOFS,
)
