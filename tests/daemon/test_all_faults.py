"""A wrong configuration: every mistake is told at once, each with the name that was probably meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.daemon.test_settings import ODDS, TABLE, WHEEL, Change, refused, without_odds_box, written

from dollyd.daemon.settings.load import load


def told(path: Path) -> dict[str, str]:
    """Every mistake that a start is refused for: its remedy by its key."""
    error = refused(path)
    assert len({one.key for one in error.all}) == len(error.all), "one cause is told once"
    return {one.key: one.remedy for one in error.all}


def test_every_mistake_is_told_and_none_twice(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        ('site = "helsinki-1"', 'site = "Helsinki 1"'),
        ("keepalive_s = 10", "keepalive_s = 99"),
        ('boundary = "06:00"', 'boundary = "26:00"'),
        ("odds_timeout_ms = 5000", "odds_timout_ms = 5000"),
        ('currency = "EUR"', 'currency = "euro"'),
        ('rulebook = "fi-ray-2013-roulette"', 'rulebook = "fi-ray-2013-roulete"'),
        ('driver = "cammegh-ss2"', 'driver = "camegh-ss2"'),
        ('role = "odds"', 'role = "odds"\noptions = { confidence_min = 50 }'),
        secret=None,
    )
    assert told(path).keys() == {
        "site",
        "mqtt.keepalive_s",
        "gaming_day",
        f"{TABLE}.odds_timout_ms",
        f"{TABLE}.stakes.currency",
        f"{TABLE}.rulebook",
        f"{WHEEL}.driver",
        f"{ODDS}.options.confidence_min",
        f"{ODDS}.secret_file",
    }


def test_sections_that_are_none_and_keys_that_are_missing_are_told_together(tmp_path: Path) -> None:
    path = tmp_path / "dollyd.toml"
    path.write_text('node = 3\njournal = "here"\n[tables]\nr1 = 4\n[tables.r2]\ndevices = 5\nstakes = []\n')
    found = told(path)
    assert {"site", "node", "journal", "signing", "tables.r1", "tables.r2.devices"} <= found.keys()
    assert found["journal"] == "write it as [journal]"
    assert {"tables.r2.game", "tables.r2.stakes", "tables.r2.profile"} <= found.keys()


@pytest.mark.parametrize(
    ("change", "key", "meant"),
    [
        (("odds_timeout_ms = 5000", "odds_timout_ms = 5000"), f"{TABLE}.odds_timout_ms", "odds_timeout_ms?"),
        (('site = "helsinki-1"', 'sit = "helsinki-1"'), "sit", "site?"),
        (("keepalive_s = 10", "keep_alive = 10"), "mqtt.keep_alive", "keepalive_s?"),
        (('game = "roulette"', 'game = "roulete"'), f"{TABLE}.game", "'roulette'?"),
        (('profile = "fi-ray-2013"', 'profile = "fi-rey-2013"'), f"{TABLE}.profile", "'fi-ray-2013'?"),
        (('driver = "cammegh-ss2"', 'driver = "camegh_ss2"'), f"{WHEEL}.driver", "'cammegh-ss2'?"),
        (('currency = "EUR"', 'currency = "eur"'), f"{TABLE}.stakes.currency", "e.g. EUR"),
        (('currency = "EUR"', 'currency = "Dollar"'), f"{TABLE}.stakes.currency", "three letters"),
        (("keepalive_s = 10", "zzz = 10"), "mqtt.zzz", "known are brokers, protocol,"),
    ],
)
def test_an_unknown_name_is_met_with_the_nearest_known_one(
    tmp_path: Path, change: Change, key: str, meant: str
) -> None:
    assert meant in told(written(tmp_path, change))[key]


@pytest.mark.parametrize(
    ("zero_rule", "variant", "words"),
    [
        ("half", "A", "variant A has no zero rule 'half'; set one of lose"),
        ("", "D", "variant D needs a zero rule; set one of half, prison"),
    ],
)
def test_a_zero_rule_that_the_variant_has_not_is_told_as_such(
    tmp_path: Path, zero_rule: str, variant: str, words: str
) -> None:
    change = ('variant = "B"', f'variant = "{variant}"\nzero_rule = "{zero_rule}"')
    error = refused(written(tmp_path, change, without_odds_box()))
    assert words in str(error)


def test_a_port_is_relative_to_the_configuration(tmp_path: Path) -> None:
    port = re.escape("/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0")
    path = written(tmp_path)
    path.write_text(re.sub(port, "wheel", path.read_text()))
    assert load(path).tables["roulette-1"].devices["wheel"].section.port == str(tmp_path / "wheel")
