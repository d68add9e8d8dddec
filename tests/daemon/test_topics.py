from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dollyd.wire.errors import InvariantError
from dollyd.wire.topics import Topics, check_name

TOPICS = Topics("oslo-1")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (TOPICS.record("t-1", "bets-closed"), "dolly/v1/oslo-1/t-1/record/bets-closed"),
        (TOPICS.last("t-1"), "dolly/v1/oslo-1/t-1/last"),
        (TOPICS.state("t-1"), "dolly/v1/oslo-1/t-1/state"),
        (TOPICS.device("t-1", "wheel"), "dolly/v1/oslo-1/t-1/device/wheel"),
        (TOPICS.node_status("n1"), "dolly/v1/oslo-1/node/n1/status"),
        (TOPICS.node_health("n1"), "dolly/v1/oslo-1/node/n1/health"),
        (TOPICS.node_keys("n1"), "dolly/v1/oslo-1/node/n1/keys"),
        (TOPICS.command("t-1"), "dolly/v1/oslo-1/t-1/command"),
        (TOPICS.command_reply("t-1"), "dolly/v1/oslo-1/t-1/command/reply"),
        (TOPICS.replay_ask("t-1", "bank"), "dolly/v1/oslo-1/t-1/replay/bank/ask"),
        (TOPICS.every_replay_ask("t-1"), "dolly/v1/oslo-1/t-1/replay/+/ask"),
        (TOPICS.replay_answer("t-1", "bank"), "dolly/v1/oslo-1/t-1/replay/bank"),
        (TOPICS.ack("t-1", "bank"), "dolly/v1/oslo-1/t-1/ack/bank"),
        (TOPICS.every_record(), "dolly/v1/oslo-1/+/record/+"),
        (TOPICS.every_record("t-1"), "dolly/v1/oslo-1/t-1/record/+"),
        (TOPICS.every_last(), "dolly/v1/oslo-1/+/last"),
        (TOPICS.every_state(), "dolly/v1/oslo-1/+/state"),
        (TOPICS.every_device(), "dolly/v1/oslo-1/+/device/+"),
        (TOPICS.every_ack("t-1"), "dolly/v1/oslo-1/t-1/ack/+"),
        (TOPICS.every_node_status(), "dolly/v1/oslo-1/node/+/status"),
        (TOPICS.every_node_health(), "dolly/v1/oslo-1/node/+/health"),
        (TOPICS.every_node_keys(), "dolly/v1/oslo-1/node/+/keys"),
    ],
)
def test_topics_are_those_of_the_design(topic: str, expected: str) -> None:
    assert topic == expected


@pytest.mark.parametrize("name", ["a", "0", "table-12", "-", "x" * 40])
def test_good_names(name: str) -> None:
    assert check_name(name)


@pytest.mark.parametrize(
    "name", ["", "x" * 41, "T1", "a/b", "+", "#", "a b", "a\n", "é", "٣", "a\0", "$sys", "a_b"]
)
def test_names_that_could_break_out_of_their_level(name: str) -> None:
    assert not check_name(name)
    for build in (TOPICS.last, TOPICS.node_status, TOPICS.command, Topics):
        with pytest.raises(InvariantError):
            build(name)


def test_no_table_is_mistaken_for_the_nodes() -> None:
    with pytest.raises(InvariantError):
        TOPICS.device("node", "status")


@given(st.text(max_size=45))
def test_a_topic_has_as_many_levels_as_it_was_given(name: str) -> None:
    if check_name(name) and name != "node":
        topic = TOPICS.record("t", name)
        assert topic.count("/") == 5
        assert not set(topic) & set("+#\0")


def test_a_group_shares_a_filter_and_a_receiver_sorts_by_the_levels_below_the_site() -> None:
    assert TOPICS.shared("books", TOPICS.every_record()) == f"$share/books/{TOPICS.every_record()}"
    with pytest.raises(InvariantError):
        TOPICS.shared("a/b", TOPICS.every_record())
    assert TOPICS.below_site(TOPICS.record("r1", "void")) == ["r1", "record", "void"]
    assert TOPICS.below_site(TOPICS.trust()) == ["trust"]
