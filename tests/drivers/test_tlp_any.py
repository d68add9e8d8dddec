"""Whatever a TLP/1 device says, in whatever order: nothing is raised, and what is told has its whole way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tlp_lines import Host, Speaker, setup_of

from dollyd.daemon.core.events import DrawUpdate, Spoken
from dollyd.drivers.protocols.tlp.sentence import Sentence, build

TALKERS = {
    "WH": ("roulette", ["GameStarted", "DrawStarted", "BetsClosed", "Reading"]),
    "BD": ("roulette", ["GameStarted", "DrawStarted", "Observed"]),
    "MW": ("money-wheel", ["GameStarted", "DrawStarted", "Reading"]),
    "DC": ("tuplanoppa", ["GameStarted", "DrawStarted", "Reading"]),
    "CN": ("tuplanoppa", []),
}
FIELD = st.one_of(
    st.sampled_from(
        ["", "0", "1", "2", "3", "4", "5", "6", "00", "01", "08", "20", "0.98", "LAP", "PASS", "DROP"]
    ),
    st.sampled_from(["0001", "0002", "0003", "NMB", "BADGE", "VOID", "28", "99999", "FFFF"]),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="$*,"), max_size=8),
)
MESSAGE = st.sampled_from(["STA", "EVT", "RES", "FLT", "HEL", "XYZ"])
GAME = st.sampled_from(["0001", "0002", "0003"])
ANY = st.tuples(MESSAGE, st.lists(FIELD, max_size=9))
STATE = st.builds(lambda state, game: ("STA", [str(state), game]), st.integers(1, 6), GAME)
OF_A_GAME = st.builds(
    lambda message, game, rest: (message, [game, *rest]), MESSAGE, GAME, st.lists(FIELD, max_size=8)
)
HELLO = st.sampled_from(["B1", "B2"])
ACT = st.one_of(
    st.tuples(st.just("say"), st.one_of(ANY, STATE, STATE, OF_A_GAME)),
    st.tuples(st.just("good"), GAME),
    st.tuples(st.just("hello"), HELLO),
    st.tuples(st.just("quiet"), st.sampled_from([1, 499, 1_501, 2_001])),
    st.tuples(st.sampled_from(["lose", "open", "again", "skip"]), st.none()),
)
RESULTS = {
    "WH": ["28", "160", "0", "", "00"],
    "BD": ["", "0", "00"],
    "MW": ["31", "0", "", "00"],
    "DC": ["2", "5", "2", "0.98", "0.98", "00", ""],
    "CN": [""],
}


class Line:
    """A device at the other end, which says anything."""

    def __init__(self, talker: str) -> None:
        self.speaker = Speaker(talker)
        self.last = self.speaker.hello()

    def act(self, host: Host, what: str, value: object) -> None:
        match what, value:
            case "say", (str(message), list(fields)):
                self.last = self.speaker.say(message, *fields)
                host.bytes(self.last)
            case "good", str(game):
                for state in ("1", "2", "3", "4", "5"):
                    if state != "4" or self.speaker.talker == "WH":
                        host.bytes(self.speaker.say("STA", state, game))
                self.last = self.speaker.say("RES", game, *RESULTS[self.speaker.talker])
                host.bytes(self.last)
            case "hello", str(boot):
                self.speaker.boot = boot
                host.bytes(self.speaker.hello())
            case "quiet", int(ms):
                host.quiet(ms)
            case "again", _:
                host.bytes(self.last)
            case "skip", _:
                self.speaker.seq = (self.speaker.seq + 7) % 65_536
            case "lose", _:
                host.lose()
            case "open", _:
                host.quiet(1).open()


def whole(events: Sequence[Spoken], way: list[str]) -> None:
    """At most one reading a game, after the steps of its way; then nothing more but contradictions."""
    told: dict[str, list[str]] = {}
    for event in events:
        game = getattr(event, "game", None)
        if game is not None and not isinstance(event, DrawUpdate):
            told.setdefault(str(game), []).append(type(event).__name__)
    for steps in told.values():
        assert steps.count("GameStarted") <= 1, "a game was named twice"
        if way and way[-1] in steps:
            assert steps[: len(way)] == way
            assert steps[len(way) :] in ([], ["ReadingContradicted"])


@pytest.mark.parametrize("talker", TALKERS)
@settings(deadline=None, max_examples=150)
@given(st.data())
def test_what_is_told_has_its_whole_way_and_a_state_survives_json(talker: str, data: st.DataObject) -> None:
    game, way = TALKERS[talker]
    host, twin = Host(setup_of(talker, game)).open(), Host(setup_of(talker, game)).open()
    one, other = Line(talker), Line(talker)
    host.bytes(one.last)
    twin.bytes(other.last)
    for what, value in data.draw(st.lists(ACT, max_size=30)):
        one.act(host, what, value)
        other.act(twin.through_json(), what, value)
    assert twin.events == host.events
    assert twin.sent == host.sent
    whole(host.events, way)


@pytest.mark.parametrize("talker", TALKERS)
@pytest.mark.parametrize("message", ["STA", "EVT", "RES", "FLT", "HEL"])
def test_a_sentence_without_fields_is_survived(talker: str, message: str) -> None:
    host, line = Host(setup_of(talker, TALKERS[talker][0])).open(), Line(talker)
    host.bytes(line.last)
    line.act(host, "good", "0001")
    host.bytes(build(Sentence(talker, message, line.speaker.seq, ())))
    line.act(host, "good", "0002")
    whole(host.events, TALKERS[talker][1])
