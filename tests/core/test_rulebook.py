"""Rule texts: the shipped ones against tables written here, and wrong ones refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.tables import RULEBOOK, layout, profile, roulette, rule_text, rulebook

from dollyd.daemon.core.games.roulette import Variant, parse_layout
from dollyd.daemon.core.rulebook import (
    RuleTextError,
    convert,
    digest,
    parse_profile,
    parse_rulebook,
)

# bet             A   B  B table 2  C   D   E   F   (rulebook 2.7)
ODDS = """
straight         30  30  60  35  35  35  35
split            15  15  30  17  17  17  17
street           10  10  20  11  11  11  11
corner            7   7  14   8   8   8   8
first_five        -   -   -   -   -   6   6
sixline           4   4   8   5   5   5   5
dozen             2   2   2   2   2   2   2
column            2   2   2   2   2   2   2
even_money        1   1   1   1   1   1   1
"""
COLUMNS = ("A", "B", "B2", "C", "D", "E", "F")
EXPECTED: dict[str, dict[str, int]] = {column: {} for column in COLUMNS}
for row in ODDS.strip().splitlines():
    bet, *cells = row.split()
    for column, cell in zip(COLUMNS, cells, strict=True):
        if cell != "-":
            EXPECTED[column][bet] = int(cell)

ZERO_RULES = {
    "A": ("lose",),
    "B": ("lose",),
    "C": ("lose",),
    "D": ("half", "prison", "both"),
    "E": ("lose",),
    "F": ("half",),
}
POCKETS = {"A": 37, "B": 37, "C": 37, "D": 37, "E": 38, "F": 38}


def test_the_shipped_rulebook_has_the_six_versions() -> None:
    assert sorted(rulebook().variants) == ["A", "B", "C", "D", "E", "F"]
    assert rulebook().quarter_odds == 3


@pytest.mark.parametrize("variant", "ABCDEF")
def test_a_version_has_its_odds_zero_rules_and_wheel(variant: str) -> None:
    shipped = roulette(variant)
    assert shipped.odds == EXPECTED[variant]
    assert shipped.zero_rules == ZERO_RULES[variant]
    assert len(layout(shipped.layout).clockwise) == POCKETS[variant]
    assert shipped.counts_zeros == (variant == "D")


def test_only_b_has_a_second_table_drawn_once_in_thirty() -> None:
    for name in "ABCDEF":
        shipped = roulette(name)
        second = EXPECTED["B2"] if name == "B" else {}
        assert shipped.odds_table_2 == second, name
        assert shipped.odds_table_2_one_in == (30 if name == "B" else 0), name


def test_table_2_doubles_exactly_the_five_inside_bets() -> None:
    b = roulette("B")
    doubled = {bet for bet, odds in b.odds_table_2.items() if odds == 2 * b.odds[bet]}
    assert doubled == {"straight", "split", "street", "corner", "sixline"}
    assert {bet for bet, odds in b.odds_table_2.items() if odds == b.odds[bet]} == b.odds.keys() - doubled


def test_profiles_say_what_the_regulations_say() -> None:
    finnish, dakotan = profile("fi-ray-2013").games["roulette"], profile("us-sd").games["roulette"]
    assert (finnish.ball_min_turns, finnish.wheel_min_turns) == (0, 0)
    assert finnish.void_declarers == {"dealer"}
    assert finnish.void_stake_policy == "player_choice"
    assert not finnish.ball_direction_opposite_required
    assert dakotan.ball_min_turns == 4
    assert dakotan.ball_direction_opposite_required
    assert finnish.hold_ms == dakotan.hold_ms == 0


def test_a_text_is_named_by_the_digest_of_its_exact_bytes() -> None:
    data = rule_text("rulebooks", RULEBOOK)
    named = parse_rulebook(data)[1]
    assert named.id == "fi-ray-2013/roulette"
    assert named.digest == hashlib.sha256(data).hexdigest()
    assert parse_rulebook(data + b"\n# a remark\n")[1].digest != named.digest
    assert parse_profile(rule_text("profiles", "us-sd"))[1].digest == digest(rule_text("profiles", "us-sd"))


# --- texts that are refused ------------------------------------------------------------------------------

EUROPEAN = rule_text("layouts", "roulette-european").decode()
AMERICAN = rule_text("layouts", "roulette-american").decode()
BOOK = rule_text("rulebooks", RULEBOOK).decode()
US_SD = rule_text("profiles", "us-sd").decode()
AU_NSW = rule_text("profiles", "au-nsw").decode()
Parse = Callable[[bytes], Any]


def parse_variants(data: bytes) -> list[Variant]:
    """All versions of a rulebook, as a table that plays one of them has it parsed."""
    return [convert(tree, Variant) for tree in parse_rulebook(data)[0].variants.values()]


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} must stand in the text exactly once"
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("parse", "text", "names"),
    [
        pytest.param(
            parse_layout,
            changed(EUROPEAN, '"32"', '"15"'),
            "clockwise: pocket 15 occurs",
            id="pocket-doubled",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, '"0", "32"', '"0", "0"'),
            "clockwise: pocket 0 occurs",
            id="zero-doubled",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, '"32", ', ""),
            "clockwise: must hold",
            id="pocket-missing",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, '"26",', '"37",'),
            "clockwise: must hold",
            id="no-such-pocket",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, '"26",', '"26", "00", "000",'),
            "clockwise: must hold",
            id="39-pockets",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, '"0", "32"', '"00", "32"'),
            "clockwise: must hold",
            id="double-zero-for-zero",
        ),
        pytest.param(
            parse_layout,
            changed(AMERICAN, '"00"', '"000"'),
            "clockwise: must hold",
            id="triple-for-double-zero",
        ),
        pytest.param(parse_layout, changed(AMERICAN, '"00"', "0"), "clockwise", id="zero-as-integer"),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, " 19, 21, 23", " 21, 23"),
            "red: must name 18",
            id="19-not-red",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, "[1, 3, 5", "[1, 2, 3, 5"),
            "red: must name 18",
            id="one-red-too-many",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, "[1, 3, 5", "[0, 3, 5"),
            "red: must name 18",
            id="zero-is-red",
        ),
        pytest.param(
            parse_layout,
            changed(EUROPEAN, "[1, 3, 5", "[3, 3, 5"),
            "red: must name 18",
            id="red-doubled",
        ),
        pytest.param(parse_layout, EUROPEAN + 'maker = "x"\n', "maker", id="layout-unknown-key"),
        pytest.param(parse_layout, "clockwise = [", "", id="not-toml"),
        pytest.param(
            parse_rulebook, changed(BOOK, "quarter_odds = 3", "quarter_odd = 3"), "quarter_odd", id="book-key"
        ),
        pytest.param(
            parse_variants,
            changed(BOOK, "odds_table_2_one_in = 30\n", ""),
            "odds_table_2 and",
            id="second-table-never-drawn",
        ),
        pytest.param(
            parse_variants,
            changed(BOOK, '["half", "prison", "both"]', "[]"),
            "zero_rules: at least one",
            id="no-zero-rule",
        ),
        pytest.param(
            parse_variants, changed(BOOK, '"prison", ', '"jail", '), "zero_rules", id="unknown-zero-rule"
        ),
        pytest.param(
            parse_variants,
            BOOK.replace("straight = 30", "straight = 30.5"),
            "odds",
            id="odds-are-integers",
        ),
        pytest.param(
            parse_profile,
            changed(US_SD, "ball_min_turns = 4", "ball_min_turns = 3.9"),
            "ball_min_turns",
            id="half-turns",
        ),
        pytest.param(parse_profile, US_SD + "ball_turns = 4\n", "ball_turns", id="profile-unknown-key"),
        pytest.param(
            parse_profile, changed(AU_NSW, '["dealer"]', '["guest"]'), "void_declarers", id="unknown-declarer"
        ),
    ],
)
def test_a_wrong_text_is_refused_and_the_key_is_named(parse: Parse, text: str, names: str) -> None:
    with pytest.raises(RuleTextError) as caught:
        parse(text.encode())
    assert names in str(caught.value)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(RuleTextError):
        parse_layout(b'id = "\xff"')
