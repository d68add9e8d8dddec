"""The money wheel against the synthetic order of rulebook 10, written out here, and wrong wheels refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.tables import game_setup, rule_text

from dollyd.daemon.core.games.money_wheel import MONEY_WHEEL, Layout, check, parse_layout
from dollyd.daemon.core.games.spec import Drawn
from dollyd.daemon.core.rulebook import RuleTextError
from dollyd.daemon.settings.faults import Faults
from dollyd.daemon.settings.table_rules import TableRules, Wanted, rules_of
from dollyd.wire.errors import ConfigError

SETUP = game_setup("money-wheel")
SECTORS = """
45A 2 1 5 1 2 5 1 2 10 1 2 1 20 1 2 1 2 1 5 1 2 10 1 5 1 2 5 1 5 1
45B 2 1 2 1 10 2 1 5 1 2 1 5 2 1 20 1 2 1 10 1 2 1
"""
ORDER = SECTORS.split()
BOOK = rule_text("rulebooks", "fi-ray-2013-money-wheel").decode()
COUNTS = {"1": 23, "2": 15, "5": 8, "10": 4, "20": 2, "45A": 1, "45B": 1}


def test_there_are_54_sectors_in_the_counts_of_the_decree() -> None:
    assert len(ORDER) == 54
    assert Counter(ORDER) == COUNTS
    assert MONEY_WHEEL.values(SETUP.layout) == tuple((str(sector),) for sector in range(1, 55))


@pytest.mark.parametrize(("sector", "symbol"), list(enumerate(ORDER, start=1)))
def test_a_sector_has_its_symbol(sector: int, symbol: str) -> None:
    drawn = Drawn((str(sector),), SETUP.variant, SETUP.layout, ())
    assert MONEY_WHEEL.outcome(drawn) == {"sector": sector, "symbol": symbol}
    assert MONEY_WHEEL.after({"sector": sector, "symbol": symbol}) == ()


# --- wheels that are refused -------------------------------------------------------------------------------


def rules(folder: Path, sectors: list[str], profile: str = "fi-ray-2013", book: str = BOOK) -> TableRules:
    """A table whose wheel has these sectors, and whose rulebook is the shipped one unless given."""
    listed = ", ".join(f'"{symbol}"' for symbol in sectors)
    (folder / "wheel.toml").write_text(f'id = "measured"\nsectors = [{listed}]\n')
    (folder / "book.toml").write_text(book)
    faults = Faults("dollyd.toml")
    found = rules_of(
        Wanted(
            config=folder / "dollyd.toml",
            key="tables.mw-1",
            game="money-wheel",
            variant="standard",
            rulebook="book.toml",
            profile=profile,
            layout="wheel.toml",
            zero_rule="",
            quarters=False,
        ),
        faults,
    )
    faults.refuse()
    assert found is not None
    return found


def refused(folder: Path, sectors: list[str], profile: str = "fi-ray-2013", book: str = BOOK) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        rules(folder, sectors, profile, book)
    assert caught.value.key == "tables.mw-1.layout"
    return caught.value


def test_the_synthetic_wheel_is_good(tmp_path: Path) -> None:
    assert rules(tmp_path, ORDER).layout.sectors == tuple(ORDER)


def test_t40_one_symbol_on_both_45_to_1_sectors_is_refused_with_its_return(tmp_path: Path) -> None:
    doubled = ["45A" if symbol == "45B" else symbol for symbol in ORDER]
    assert (
        "symbol '45A' returns 170.37 % of the stakes, more than 100 %" in refused(tmp_path, doubled).problem
    )


def test_two_symbols_on_the_20_to_1_sectors_count_by_their_odds(tmp_path: Path) -> None:
    book = (
        rule_text("rulebooks", "fi-ray-2013-money-wheel")
        .decode()
        .replace('"20" = 20,', '"20" = 20, "20B" = 20,')
    )
    both = list(ORDER)
    both[both.index("20")] = "20B"
    assert rules(tmp_path, both, book=book).layout.sectors == tuple(both)


def test_a_symbol_that_the_rulebook_does_not_pay_is_refused(tmp_path: Path) -> None:
    joker = ["joker" if symbol == "45B" else symbol for symbol in ORDER]
    assert "symbol 'joker' has no odds" in refused(tmp_path, joker).problem


def test_a_count_that_is_not_the_rulebooks_is_refused(tmp_path: Path) -> None:
    other = list(ORDER)
    other[other.index("2")] = "5"
    assert "by odds, the rulebook has" in refused(tmp_path, other).problem


def test_a_wheel_of_52_sectors_is_refused_by_the_profile(tmp_path: Path) -> None:
    book = BOOK.replace('"1" = 23, "2" = 15', '"1" = 22, "2" = 14')
    fewer = list(ORDER)
    fewer.remove("1")
    fewer.remove("2")
    problem = refused(tmp_path, fewer, book=book).problem
    assert problem == "52 places on a wheel that the profile wants to have 54"
    assert len(rules(tmp_path, fewer, "us-ny-bigsix", book).layout.sectors) == 52


def test_a_wheel_without_sectors_is_refused() -> None:
    with pytest.raises(RuleTextError, match="at least one"):
        parse_layout(b'id = "x"\nsectors = []\n')


def test_what_returns_exactly_all_is_no_more_than_all() -> None:
    variant = SETUP.variant
    even = type(variant)(odds={"1": 1}, sectors_by_odds={"1": 27})
    with pytest.raises(RuleTextError, match=r"200\.00 %"):
        check(even, Layout(id="x", sectors=("1",) * 27))
    half = type(variant)(odds={"1": 1, "0": 0}, sectors_by_odds={"1": 27, "0": 27})
    check(half, Layout(id="x", sectors=("1", "0") * 27))
