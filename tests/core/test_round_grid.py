"""Every event in every phase: what it changes and what it brings, against a table written here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.tables import (
    IN_PHASE,
    ODDS_BOX,
    PROVEN,
    WHEEL,
    Play,
    but_for_counts,
    game,
    make_setup,
    odds_drawn,
)

from dollyd.daemon.core import decision
from dollyd.daemon.core.events import (
    Approved,
    BetsClosed,
    ClockStepped,
    Confirmed,
    CorrectionProposed,
    DeviceChanged,
    DeviceReady,
    DeviceTooFast,
    DeviceTrouble,
    DrawStarted,
    DrawUpdate,
    Ending,
    Event,
    GameEnded,
    GameStarted,
    HostIncident,
    HostStalled,
    HouseEvent,
    Inspected,
    NoneImprisoned,
    Observed,
    OddsDrawn,
    OddsFailed,
    Original,
    Permitted,
    PlayHalted,
    Reading,
    ReadingContradicted,
    Restarted,
    ResultProposed,
    Seated,
    ShooterDeclined,
    TableClosed,
    TableOpened,
    ThrowRejected,
    Tick,
    VoidDeclared,
)
from dollyd.daemon.core.round import ACCEPTS, ORDERS, AskOdds, Effect, Phase
from dollyd.wire.record import Finding, IncidentBody

ORIGINAL = Original(
    7, Finding(kind="result", outcome={"pocket": "17"}), decision.setting(make_setup("B")), "2026-11-29"
)
EVENTS: dict[str, Event] = {
    "table-opened": TableOpened("d1"),
    "table-closed": TableClosed("d1"),
    "game-started": GameStarted(game(2)),
    "draw-started": DrawStarted(game()),
    "bets-closed": BetsClosed(WHEEL, game()),
    "nmb-called": BetsClosed("d1"),
    "draw-update": DrawUpdate(game(), replace(PROVEN, relaunches=1)),
    "reading": Reading(game(), ("17",), PROVEN),
    "game-ended": GameEnded(game(), Ending.SUPERSEDED, PROVEN),
    "contradicted": ReadingContradicted(game(), ("18",)),
    "odds-drawn": odds_drawn(1),
    "odds-failed": OddsFailed(ODDS_BOX, 1, "bad-mac"),
    "void": VoidDeclared("d1", "dealer", "a coin on the wheel"),
    "confirmed": Confirmed("d1"),
    "observed": Observed(game(), PROVEN),
    "permitted": Permitted("d1"),
    "rejected": ThrowRejected("d1", "dealer", "on the rail"),
    "seated": Seated("d1", ("1", "3")),
    "declined": ShooterDeclined("d1"),
    "inspected": Inspected("d1"),
    "none-imprisoned": NoneImprisoned("p1", "pit-boss"),
    "entered": ResultProposed("d1", "dealer", "{}", "ab", 1, ("17",), "the sensor is dead"),
    "correction": CorrectionProposed("d1", "dealer", "{}", "cd", 1, (), "the video", ORIGINAL),
    "approved": Approved("p1", "pit-boss", "{}", "ab"),
    "ready": DeviceReady(WHEEL),
    "trouble": DeviceTrouble(WHEEL, "lost", "unplugged"),
    "changed": DeviceChanged(WHEEL, "its counter went back"),
    "clock": ClockStepped(5),
    "restarted": Restarted("2026-11-29T18:41:20Z"),
    "halted": PlayHalted("disk-full"),
    "host": HostIncident("captures-stopped", "the disk is nearly full"),
    "stalled": HostStalled(3_000),
    "too-fast": DeviceTooFast(WHEEL),
    "tick": Tick(),
}

# `-` no effect, else the records (an incident by its name), `ask` for the odds box; `*` the state changed.
# At rest: the odds table and the dealer are awaited.
GRID = """
                 table-closed           waiting                 bets-open                    spinning                     no-more-bets              at-rest                   blocked
table-opened     session*               opening-refused         opening-refused              opening-refused              opening-refused           opening-refused           opening-refused
table-closed     closing-refused        session*                closing-refused              closing-refused              closing-refused           closing-refused           closing-refused
game-started     -*                     round*                  unresolved*                  unresolved*                  unresolved*               -*                        -*
draw-started     -                      -                       -*                           -                            -                         -                         -
bets-closed      -                      -                       bets-closed+ask*             bets-closed+ask*             -                         -                         -
nmb-called       -                      -                       bets-closed+ask*             bets-closed+ask*             -                         -                         -
draw-update      -                      -                       relaunch*                    relaunch*                    relaunch*                 relaunch*                 -
reading          -                      -                       unresolved*                  unresolved*                  -*                        -                         -
game-ended       -                      -                       unresolved*                  unresolved*                  unresolved*               -*                        -
contradicted     -                      -                       unresolved*                  unresolved*                  unresolved*               unresolved*               -*
odds-drawn       odds-unused*           odds-unused*            order-violation+unresolved*  order-violation+unresolved*  -*                        -*                        odds-unused*
odds-failed      odds-refused*          odds-refused*           odds-refused+unresolved*     odds-refused+unresolved*     odds-refused+unresolved*  odds-refused+unresolved*  odds-refused*
void             void-refused           void-refused            void-refused                 void*                        void*                     void*                     void*
confirmed        confirmation-refused   confirmation-refused    confirmation-refused         confirmation-refused         confirmation-refused      confirmation-refused      confirmation-refused
observed         -                      -                       -*                           -*                           -*                        -*                        -
permitted        permission-refused     permission-refused      -*                           permission-refused           permission-refused        permission-refused        permission-refused
rejected         rejection-refused      rejection-refused       rejection-refused            rejection-refused            rejection-refused         rejection-refused         rejection-refused
seated           -                      -                       -                            -                            -                         -                         -
declined         decline-refused        decline-refused         decline-refused              decline-refused              decline-refused           decline-refused           decline-refused
inspected        inspection-refused     inspection-refused      inspection-refused           inspection-refused           inspection-refused        inspection-refused        inspection-refused
none-imprisoned  none-imprisoned        none-imprisoned         none-imprisoned              none-imprisoned              none-imprisoned           none-imprisoned           none-imprisoned
entered          manual-result-refused  manual-result-refused   manual-result-refused        manual-result-refused        manual-result-refused     manual-result-refused     manual-result-refused
correction       correction-refused     correction-refused      correction-refused           correction-refused           correction-refused        correction-refused        correction-refused
approved         approval-refused       approval-refused        approval-refused             approval-refused             approval-refused          approval-refused          approval-refused
ready            device-ready*          device-ready*           device-ready*                device-ready*                device-ready*             device-ready*             device-ready*
trouble          device-lost*           device-lost*            device-lost*                 device-lost*                 device-lost*              device-lost*              device-lost*
changed          device-changed*        device-changed*         device-changed+unresolved*   device-changed+unresolved*   device-changed+unresolved* device-changed+unresolved* device-changed*
clock            clock                  clock                   clock                        clock                        clock                     clock                     clock
restarted        gap                    gap+session             gap+session+unresolved*      gap+session+unresolved*      gap+session+unresolved*   gap+session+unresolved*   gap+session*
halted           play-halted*           play-halted*            play-halted*                 play-halted*                 play-halted*              play-halted*              play-halted*
host             captures-stopped       captures-stopped        captures-stopped             captures-stopped             captures-stopped          captures-stopped          captures-stopped
stalled          host-stalled           host-stalled            host-stalled+unresolved*     host-stalled+unresolved*     host-stalled+unresolved*  host-stalled+unresolved*  host-stalled*
too-fast         device-fault*          device-fault*           device-fault+unresolved*     device-fault+unresolved*     device-fault+unresolved*  device-fault+unresolved*  device-fault*
tick             -                      -                       -                            -                            -                         -                         -
"""  # noqa: E501 - a table is read as a table
COLUMNS, *LINES = (line.split() for line in GRID.strip().splitlines())
CELLS = [(name, column, cell) for name, *cells in LINES for column, cell in zip(COLUMNS, cells, strict=True)]


def name_of(effect: Effect) -> str:
    if isinstance(effect, AskOdds):
        return "ask"
    return effect.body.what if isinstance(effect.body, IncidentBody) else str(effect.kind)


def in_phase(phase: Phase) -> Play:
    play = IN_PHASE[phase](Play(make_setup("B", confirm="dealer")))
    assert play.phase is phase
    return play


def test_the_grid_has_every_phase_and_every_event() -> None:
    assert [Phase(column) for column in COLUMNS] == list(Phase)
    assert [line[0] for line in LINES] == list(EVENTS)
    assert {type(event) for event in EVENTS.values()} == set().union(*ACCEPTS.values())
    assert ACCEPTS.keys() == set(Phase)


@pytest.mark.parametrize(
    ("name", "column", "cell"), CELLS, ids=[f"{name}-in-{column}" for name, column, _ in CELLS]
)
def test_cell(name: str, column: str, cell: str) -> None:
    play = in_phase(Phase(column))
    before = play.table
    effects = play.tell(EVENTS[name])
    said = "+".join(name_of(effect) for effect in effects) or "-"
    assert said + ("*" if but_for_counts(play.table) != but_for_counts(before) else "") == cell


NOT_ACCEPTED = [
    (name, phase) for name, event in EVENTS.items() for phase in Phase if type(event) not in ACCEPTS[phase]
]


@pytest.mark.parametrize(
    ("name", "phase"), NOT_ACCEPTED, ids=[f"{name}-in-{phase}" for name, phase in NOT_ACCEPTED]
)
def test_what_a_phase_does_not_accept_leaves_the_state_as_it_was(name: str, phase: Phase) -> None:
    event = EVENTS[name]
    play = in_phase(phase)
    before = play.table
    effects = play.tell(event)
    assert but_for_counts(play.table) == but_for_counts(before)
    told = isinstance(event, HouseEvent) and not isinstance(event, BetsClosed)  # which may be said twice
    assert [name_of(effect) for effect in effects] == ([f"{ORDERS[type(event)]}-refused"] if told else [])


@pytest.mark.parametrize("phase", list(Phase)[2:], ids=str)
@pytest.mark.parametrize(
    "event",
    [
        DrawStarted(game(9)),
        BetsClosed(WHEEL, game(9)),
        DrawUpdate(game(9), PROVEN),
        Reading(game(9), ("17",), PROVEN),
        GameEnded(game(9), Ending.LOST, PROVEN),
        ReadingContradicted(game(9), ("18",)),
        odds_drawn(9),
        OddsFailed(ODDS_BOX, 9, "bad-mac"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_device_game_or_round_that_is_not_ours_changes_nothing(event: Event, phase: Phase) -> None:
    play = in_phase(phase)
    before = play.table
    effects = play.tell(event)
    uncounted: dict[str, Any] = {"repeated": (), "accounts": (), "odds_counter": -1}
    assert replace(play.table, **uncounted) == replace(before, **uncounted), "but for what is counted"
    told = {OddsFailed: ["odds-refused"], OddsDrawn: ["odds-unused"]}
    assert [name_of(effect) for effect in effects] == told.get(type(event), [])


def test_odds_drawn_is_told_of_its_own_round_only() -> None:
    play = in_phase(Phase.NO_MORE_BETS)
    wrong: Any = odds_drawn(2)
    assert isinstance(wrong, OddsDrawn)
    play.tell(wrong)
    assert play.round.odds is None
