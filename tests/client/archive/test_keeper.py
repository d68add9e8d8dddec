"""When a gap is asked for, and when it is left alone."""

from __future__ import annotations

from random import Random

from dollyd.client.archive.keeper import Keeper, newest
from dollyd.client.archive.store import Chain, Gap
from dollyd.client.stream.reader import REPLAYS_AT_ONCE
from dollyd.client.stream.replay import LATER_S, Patience

GAP = Gap("r1", "c", 5, 9, certain=True)


def keeper() -> Keeper:
    return Keeper(Patience(answer_s=1.0, answer_max_s=1.0, gap_s=5.0), Random(1))


def test_a_gap_that_nobody_can_fill_is_asked_for_again_much_later() -> None:
    keeping = keeper()
    (request,), _ = keeping.requests([GAP], 0.0)
    assert (request.table, request.chain, request.first, request.last) == ("r1", "c", 5, 9)
    keeping.ended("c", request.id, "pruned", 0.1)
    times = [at / 2 for at in range(1, int(LATER_S * 2) + 4)]
    asked = [at for at in times if keeping.requests([GAP], at)[0]]
    assert len(asked) == 1
    assert asked[0] >= LATER_S


def test_another_gap_of_the_chain_is_asked_for_at_once() -> None:
    keeping = keeper()
    (request,), _ = keeping.requests([GAP], 0.0)
    keeping.ended("c", request.id, "pruned", 0.1)
    keeping.requests([GAP], 0.2)
    assert len(keeping.requests([Gap("r1", "c", 2, 3, certain=True)], 0.3)[0]) == 1


def test_what_only_somebody_unknown_spoke_of_is_forgotten() -> None:
    keeping, rumour = keeper(), Gap("r1", "c", 5, 9, certain=False)
    (request,), _ = keeping.requests([rumour], 0.0)
    keeping.ended("c", request.id, "unknown-chain", 0.1)
    assert keeping.requests([rumour], 0.2) == ([], ["c"])


def test_few_requests_are_on_their_way_at_a_time() -> None:
    keeping = keeper()
    gaps = [Gap(f"r{number}", f"c{number}", 1, 1, certain=True) for number in range(20)]
    requests, _ = keeping.requests(gaps, 0.0)
    assert len(requests) == REPLAYS_AT_ONCE
    assert keeping.requests(gaps, 0.1)[0] == []
    keeping.ended(requests[0].chain, requests[0].id, "", 0.2)
    assert len(keeping.requests(gaps[1:], 0.2)[0]) == 1


def test_the_chain_that_goes_on_is_acknowledged_and_none_without_records() -> None:
    old, new = Chain("s", "r1", "a", 1, 50, 50, ""), Chain("s", "r1", "b", 1, 2, 2, "")
    empty = Chain("s", "r2", "d", 1, 0, 7, "")
    assert newest([old, new, empty]) == {"r1": new}


def chain(complete_to: int, name: str = "a", broken: str = "") -> Chain:
    return Chain("s", "r1", name, 1, complete_to, complete_to, broken)


def test_whether_a_chain_goes_on_is_asked_once_a_link() -> None:
    """Its last records may have come before we listened, and nothing that is retained tells of them."""
    keeping = keeper()
    (probe,) = keeping.probes([], [chain(104)], 0.0)
    assert (probe.table, probe.chain, probe.first, probe.last) == ("r1", "a", 105, 1104)
    assert keeping.probes([], [chain(104)], 1.0) == []
    keeping.ended("a", probe.id, "beyond-the-end", 1.0)
    assert keeping.probes([], [chain(135)], LATER_S) == []
    keeping.restart()
    assert len(keeping.probes([], [chain(135)], LATER_S)) == 1


def test_a_full_answer_is_followed_by_the_next_question_if_it_brought_something() -> None:
    keeping = keeper()
    (probe,) = keeping.probes([], [chain(10)], 0.0)
    keeping.ended("a", probe.id, "", 1.0)
    assert keeping.probes([], [chain(10)], 1.0) == []  # nothing of it was taken: no wheel without an end
    (again,) = keeping.probes([], [chain(1010)], 1.0)
    assert again.first == 1011
    keeping.ended("a", again.id, "busy", 2.0)
    assert keeping.probes([], [chain(1010)], 3.0) == []
    assert len(keeping.probes([], [chain(1010)], 10.0)) == 1


def test_a_chain_with_a_gap_and_one_that_is_broken_are_not_asked_for_more() -> None:
    keeping = keeper()
    assert keeping.probes([Gap("r1", "a", 5, 9, certain=True)], [chain(4)], 0.0) == []
    assert keeping.probes([], [chain(4, broken="record 5: forged")], 0.0) == []
    assert keeping.probes([], [chain(0)], 0.0) == []
