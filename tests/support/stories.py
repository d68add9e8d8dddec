"""Stories for properties: what a table of any game may hear, sensible or not, and a table that hears it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from hypothesis import strategies as st
from tests.support.tables import ODDS_BOX, PROVEN, START, game, game_setup, later, make_setup

from dollyd.daemon.core.events import (
    BetsClosed,
    ClockStepped,
    Confirmed,
    Defect,
    DeviceReady,
    DeviceTrouble,
    DrawFacts,
    DrawStarted,
    DrawUpdate,
    Ending,
    Event,
    Flag,
    GameEnded,
    GameStarted,
    HostIncident,
    Inspected,
    Observed,
    OddsDrawn,
    OddsFailed,
    Permitted,
    PlayHalted,
    Reading,
    ReadingContradicted,
    Restarted,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    Tick,
    TurnsBasis,
    VoidDeclared,
)
from dollyd.daemon.core.round import Effect, Emit, step
from dollyd.daemon.core.state import Setup, Table
from dollyd.wire.record import Kind
from dollyd.wire.stamp import Stamp

CURRENT = 0
"""Round number of an odds answer that stands for the round in progress."""
Told: TypeAlias = tuple[int, Event]
"""Milliseconds since the event before, and the event."""

SETUPS = [
    make_setup("A"),
    make_setup("B"),
    make_setup("B", confirm="dealer", hold_ms=2_000, unresolved_void_ms=60_000),
    make_setup("D", hold_ms=2_000, unresolved_void_ms=10_000),
    make_setup("E", profile_name="us-sd", ball=True),
    make_setup("A", wheels=2, confirm="dealer"),
    make_setup("B", wheels=2),
    make_setup("A", profile_name="fr", rules={"round_pace_max_per_hour": 2}),
    game_setup("boule", ball=True),
    game_setup("money-wheel", hold_ms=2_000),
    game_setup("tuplanoppa", unresolved_void_ms=10_000),
    game_setup("tuplanoppa", witnesses=2, confirm="dealer"),
    game_setup("sic-bo", profile_name="fr", hold_ms=2_000),
    game_setup("sic-bo", profile_name="us-pa-dice"),
    game_setup("craps", rules={"nmb_before_draw": "required", "bets_close": "announced"}),
]
# Every game has readings of its own; one that no game has, and an empty one, are among them too.
NO_READING: list[tuple[str, ...]] = [(), ("99",)]


def readings(setup: Setup) -> list[tuple[str, ...]]:
    """A few of what there can be: of roulette a zero and two numbers, of two dice a seven among others."""
    every = setup.game.values(setup.layout)
    return [every[0], every[5], every[len(every) // 2]]


facts = st.one_of(
    st.just(PROVEN),
    st.builds(
        DrawFacts,
        flags=st.lists(st.sampled_from(Flag), max_size=1).map(tuple),
        defects=st.lists(st.sampled_from(Defect), max_size=1).map(tuple),
        relaunches=st.integers(0, 2),
        turns_basis=st.sampled_from(TurnsBasis),
        ball_turns_x100=st.none() | st.integers(0, 900),
        wheel_turns_x100=st.none() | st.integers(0, 900),
        turns_lower_bound=st.booleans(),
        ball_direction=st.sampled_from(["", "clockwise", "counter-clockwise"]),
        wheel_direction=st.sampled_from(["", "clockwise", "counter-clockwise"]),
        details=st.just((("bare_number", "17"),)),
    ),
)
odds = st.builds(
    OddsDrawn,
    st.just(ODDS_BOX),
    st.sampled_from([CURRENT, CURRENT, 1, 2, 9]),
    st.sampled_from([1, 2]),
    st.integers(1, 9),
    st.just("0" * 16),
    st.just("F" * 16),
)
roles = st.sampled_from(["dealer", "inspector"])
seats = st.lists(st.sampled_from("12345"), unique=True, max_size=3).map(tuple)
pauses = st.one_of(st.integers(0, 20), st.sampled_from([1_999, 2_000, 5_000, 60_000, 120_000, 86_400_000]))
void: st.SearchStrategy[Told] = st.tuples(st.integers(0, 20), st.just(VoidDeclared("d1", "dealer", "a coin")))


def lost(setup: Setup) -> st.SearchStrategy[Told]:
    """The device that reads the outcome is lost in a game."""
    doubtful = DrawFacts(defects=(Defect.DEVICE_LOST,))
    games = st.builds(game, st.integers(1, 2), st.just(setup.witnesses[0]))
    return st.tuples(st.integers(0, 20), st.builds(GameEnded, games, st.just(Ending.LOST), st.just(doubtful)))


def any_event(setup: Setup) -> st.SearchStrategy[Event]:
    devices = [*setup.witnesses, *setup.witnesses, *setup.supporters]
    games = st.builds(game, st.integers(1, 2), st.sampled_from(devices))
    values = st.sampled_from(readings(setup) + NO_READING)
    return st.one_of(
        st.just(TableOpened("d1")),
        st.just(TableClosed("d1")),
        st.builds(GameStarted, games, st.booleans(), st.booleans()),
        st.builds(DrawStarted, games),
        st.builds(BetsClosed, st.just("d1"), games | st.none()),
        st.builds(DrawUpdate, games, facts),
        st.builds(Reading, games, values, facts),
        st.builds(Observed, games, facts),
        st.builds(GameEnded, games, st.sampled_from(Ending), facts),
        st.builds(ReadingContradicted, games, values),
        odds,
        st.builds(OddsFailed, st.just(ODDS_BOX), st.sampled_from([CURRENT, 1, 2]), st.just("bad-mac")),
        st.builds(VoidDeclared, st.just("d1"), roles, st.just("a coin")),
        st.just(Confirmed("d1")),
        st.just(Permitted("d1")),
        st.builds(ThrowRejected, st.just("d1"), roles, st.just("on the rail")),
        st.builds(Seated, st.just("d1"), seats),
        st.just(ShooterDeclined("d1")),
        st.just(Inspected("d1")),
        st.just(DeviceReady(devices[0])),
        st.just(DeviceTrouble(devices[0], "lost", "unplugged")),
        st.just(ClockStepped(-5)),
        st.builds(PlayHalted, st.sampled_from(["", "", "disk-full"])),
        st.just(HostIncident("captures-stopped", "the disk is nearly full")),
        st.just(Restarted("2026-11-29T18:41:20Z")),
        st.just(Tick()),
    )


def rejected_throw(setup: Setup, number: int) -> list[Event]:
    """Dice that were not thrown together; nothing at a wheel."""
    if not setup.game.throws:
        return []
    one = game(number, setup.witnesses[0])
    apart = DrawUpdate(one, DrawFacts(flags=(Flag.NOT_TOGETHER,)))
    return [GameStarted(one), BetsClosed("d1"), Permitted("d1"), DrawStarted(one), apart]


def good_round(setup: Setup, number: int, value: tuple[str, ...], rejected: int) -> list[Event]:
    """What a table hears of a round in which all goes well, perhaps after rejected throws."""
    games = [game(number, device) for device in setup.witnesses]
    seen = [game(number, device) for device in setup.supporters]
    turned = replace(PROVEN, turns_basis=TurnsBasis.COUNTED, ball_turns_x100=600)
    draw: list[Event] = [DrawStarted(games[0]), BetsClosed("d1")]
    if setup.game.throws and setup.rules.nmb_before_draw != "reversed":
        draw = [BetsClosed("d1"), Permitted("d1"), DrawStarted(games[0])]
    return [
        *(event for throw in range(rejected) for event in rejected_throw(setup, 10 * number + throw)),
        *(GameStarted(one) for one in (*games, *seen)),
        *draw,
        OddsDrawn(ODDS_BOX, CURRENT, 2, 1, "0" * 16, "F" * 16),
        *(Observed(one, turned) for one in seen),
        *(Reading(one, value, PROVEN) for one in games),
        Confirmed("d1"),
        Inspected("d1"),
    ]


def disturbed(events: list[Event], disturbances: list[tuple[int, Told]]) -> list[Told]:
    """A good round with something else told in between."""
    story: list[Told] = [(1, event) for event in events]
    for place, told in disturbances:
        story.insert(place, told)
    return story


@cache
def parts_of(index: int) -> st.SearchStrategy[list[Told]]:
    """What a table hears in the setup of this index, sensible and not."""
    setup = SETUPS[index]
    single: st.SearchStrategy[Told] = st.tuples(pauses, any_event(setup))
    good = st.builds(
        good_round, st.just(setup), st.integers(1, 2), st.sampled_from(readings(setup)), st.integers(0, 2)
    )
    told = single | void | lost(setup)
    rounds = st.builds(disturbed, good, st.lists(st.tuples(st.integers(1, 7), told), max_size=2))
    parts = st.lists(st.one_of(rounds, rounds, st.lists(single, max_size=4)), min_size=1, max_size=6)
    return parts.map(lambda found: [told for part in found for told in part])


def story_of(index: int) -> st.SearchStrategy[list[Told]]:
    return parts_of(index).map(lambda told: [(0, TableOpened("d1")), *told])


def read_of(outcome: dict[str, Any]) -> list[str]:
    """The reading that an outcome tells, whatever the game."""
    if "pocket" in outcome:
        return [outcome["pocket"]]
    if "cup" in outcome:
        return [outcome["number"], str(outcome["cup"])]
    if "sector" in outcome:
        return [str(outcome["sector"])]
    return [str(outcome[f"die_{n}"]) for n in (1, 2, 3) if f"die_{n}" in outcome]


@dataclass
class Run:
    """A story told to a table, with all that was told and all that followed."""

    setup: Setup
    table: Table = field(default_factory=Table)
    at: Stamp = START
    effects: list[Effect] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    told_before: list[int] = field(default_factory=list)
    """For each effect, how many events had been told."""

    def tell(self, story: list[Told]) -> Run:
        for pause_ms, event in story:
            self.step(pause_ms, event)
        return self

    def step(self, pause_ms: int, event: Event) -> None:
        if isinstance(event, OddsDrawn | OddsFailed) and event.round == CURRENT:
            event = replace(event, round=self.table.number)
        self.at = later(self.at, pause_ms)
        self.told.append(event)
        self.table, effects = step(self.setup, self.table, event, self.at)
        self.effects += effects
        self.told_before += [len(self.told)] * len(effects)

    def emitted(self, *kinds: Kind) -> list[Emit]:
        return [e for e in self.effects if isinstance(e, Emit) and e.kind in kinds]
