"""The shipped example loads; each wrong configuration gives one line with file, key and remedy."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from tests.support.tables import TEXTS

from dollyd.daemon.core.events import TurnsBasis
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.settings.load import load, shipped_table
from dollyd.drivers import DRIVERS
from dollyd.drivers.spec import Place, Proof
from dollyd.wire.errors import ConfigError

ROULETTE = frozenset({"roulette"})
CERTIFIED = frozenset({TurnsBasis.CERTIFIED})
HOUSE_PROFILE = 'id = "house"\n[games.roulette]\nsource = "x"\nvoid_declarers = ["dealer"]\n'

EXAMPLE = files("dollyd").joinpath("config", "examples", "roulette-b.toml").read_text()
TABLE, WHEEL, ODDS = "tables.roulette-1", "tables.roulette-1.devices.wheel", "tables.roulette-1.devices.odds"
SECRET = b"0123456789abcdef0123456789abcdef"
Change = tuple[str, str]


def written(folder: Path, *changes: Change, secret: bytes | None = SECRET) -> Path:
    """The example with changes, beside its secret."""
    text = EXAMPLE
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} must stand in the example exactly once"
        text = text.replace(old, new)
    path = folder / "dollyd.toml"
    path.write_text(text)
    if secret is not None:
        (folder / "odds.key").write_bytes(secret)
        (folder / "odds.key").chmod(0o600)
    return path


def without_odds_box() -> Change:
    return EXAMPLE[EXAMPLE.index("[tables.roulette-1.devices.odds]") :], ""


def second_odds_box() -> Change:
    head = "[tables.roulette-1.devices.odds]"
    other = 'driver = "tlp"\nrole = "odds"\nport = "/dev/ttyUSB9"\nsecret_file = "odds.key"'
    return head, f"[tables.roulette-1.devices.odds-2]\n{other}\n\n{head}"


def second_table() -> Change:
    """The same table once more under another name, with the same ports."""
    table = EXAMPLE[EXAMPLE.index("[tables.roulette-1]") :].replace("roulette-1", "roulette-2")
    return 'expect = { serial = "OD000017" }', f'expect = {{ serial = "OD000017" }}\n\n{table}'


def refused(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: ")
    assert caught.value.problem in line
    assert line.endswith(f"; {caught.value.remedy}")
    assert caught.value.remedy
    return caught.value


def test_the_shipped_example_loads(tmp_path: Path) -> None:
    settings = load(written(tmp_path))
    table = settings.tables["roulette-1"]
    setup = table.setup
    assert (settings.site, settings.node, setup.table) == ("helsinki-1", "pit3-box1", "roulette-1")
    assert (setup.variant_name, setup.zero_rule, setup.needs_odds) == ("B", "lose", True)
    assert (setup.stakes.minimum, setup.stakes.maximum, setup.stakes.currency) == (100, 100_000, "EUR")
    assert setup.witnesses == ("wheel",)
    assert (setup.confirm, setup.hold_ms, setup.unresolved_void_ms) == ("auto", 0, 0)
    wheel, odds = table.devices["wheel"].setup, table.devices["odds"].setup
    assert len(wheel.pockets) == 37
    assert (wheel.period_ms, wheel.silence_ms, wheel.secret) == (500, 2_000, b"")
    assert odds.secret == SECRET
    assert odds.expect == {"serial": "OD000017"}
    night = 1_796_000_000_000_000_000  # 2026-11-30, seven minutes to three in Helsinki
    assert setup.gaming_date(night) == "2026-11-29"


def test_what_may_be_left_out_has_its_default(tmp_path: Path) -> None:
    mqtt = EXAMPLE[EXAMPLE.index("[mqtt]") : EXAMPLE.index("[tables.roulette-1]")]
    settings = load(written(tmp_path, (mqtt, "")))
    assert settings.mqtt.brokers == ("localhost:1883",)
    assert settings.mqtt.protocol == "5"


def test_relative_names_of_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    """`dollyd check` at a shell and the service, which runs in another directory, mean the same files."""
    path = written(tmp_path)
    text = path.read_text()
    for key in ("key", "path"):
        text = re.sub(rf'^{key} = ".*"', f'{key} = "{key}.file"', text, flags=re.MULTILINE)
    text = text.replace(
        "[mqtt]", '[metrics]\nfile = "d.prom"\n[mqtt]\nca_file = "/etc/ca.pem"\ncert_file = "a/c.pem"'
    )
    path.write_text(text)
    settings = load(path)
    assert settings.signing.key == str(tmp_path / "key.file")
    assert settings.journal.path == str(tmp_path / "path.file")
    assert settings.metrics.file == str(tmp_path / "d.prom")
    assert (settings.mqtt.ca_file, settings.mqtt.cert_file) == ("/etc/ca.pem", str(tmp_path / "a/c.pem"))
    assert settings.mqtt.key_file == ""


def test_silence_follows_the_period(tmp_path: Path) -> None:
    path = written(tmp_path, ('role = "wheel"', 'role = "wheel"\nstatus_period_ms = 100'))
    assert load(path).tables["roulette-1"].devices["wheel"].setup.silence_ms == 400


def test_the_line_end_of_a_secret_file_is_not_part_of_the_secret(tmp_path: Path) -> None:
    path = written(tmp_path, secret=SECRET + b"\n")
    assert load(path).tables["roulette-1"].devices["odds"].setup.secret == SECRET


def test_a_rule_text_of_ones_own_is_read_beside_the_configuration(tmp_path: Path) -> None:
    shipped = files("dollyd").joinpath("config", "profiles", "us-sd.toml").read_bytes()
    (tmp_path / "house.toml").write_bytes(shipped + b"# ours\n")
    path = written(tmp_path, ('profile = "fi-ray-2013"', 'profile = "house.toml"'))
    assert load(path).tables["roulette-1"].setup.rules.ball_min_turns == 4


def test_a_limit_from_the_profile_reaches_the_table(tmp_path: Path) -> None:
    shipped = files("dollyd").joinpath("config", "profiles", "fi-ray-2013.toml").read_text()
    limits = "[games.roulette]\nhold_ms = 1500\nunresolved_void_after_s = 600\n"
    (tmp_path / "house.toml").write_text(shipped.replace("[games.roulette]\n", limits))
    setup = load(written(tmp_path, ('"fi-ray-2013"\n', '"house.toml"\n'))).tables["roulette-1"].setup
    assert (setup.hold_ms, setup.unresolved_void_ms) == (1_500, 600_000)


WRONG: dict[str, tuple[str, tuple[Change, ...]]] = {
    # unknown keys, at every level
    "unknown-key": ("colour", (('node = "pit3-box1"', 'node = "pit3-box1"\ncolour = "red"'),)),
    "unknown-section": ("logging", (("[journal]", "[logging]\nlevel = 1\n[journal]"),)),
    "unknown-journal-key": ("journal.size", (("captures_max_mb = 500", "captures_max_mb = 500\nsize = 1"),)),
    "unknown-signing-key": ("signing.keys", (("[signing]", "[signing]\nkeys = 2"),)),
    "unknown-mqtt-key": ("mqtt.qos", (("keepalive_s = 10", "keepalive_s = 10\nqos = 0"),)),
    "unknown-gaming-day-key": ("gaming_day.dst", (("[gaming_day]", "[gaming_day]\ndst = true"),)),
    "unknown-table-key": (f"{TABLE}.qarters", (("quarters = false", "qarters = false"),)),
    "unknown-stakes-key": (f"{TABLE}.stakes.limit", (('currency = "EUR"', 'currency = "EUR", limit = 1'),)),
    "unknown-device-key": (f"{WHEEL}.speed", (('role = "wheel"', 'role = "wheel"\nspeed = 1'),)),
    # wrong types and values
    "wrong-type": ("site", (('site = "helsinki-1"', "site = 1"),)),
    "wrong-type-in-section": (
        "journal.captures_max_mb",
        (("captures_max_mb = 500", 'captures_max_mb = "500"'),),
    ),
    "wrong-type-of-table": (f"{TABLE}.quarters", (("quarters = false", 'quarters = "no"'),)),
    "wrong-type-of-device": (f"{WHEEL}.baud", (('role = "wheel"', 'role = "wheel"\nbaud = "fast"'),)),
    "not-positive": (f"{TABLE}.odds_timeout_ms", (("odds_timeout_ms = 5000", "odds_timeout_ms = 0"),)),
    "keepalive-too-long": ("mqtt.keepalive_s", (("keepalive_s = 10", "keepalive_s = 60"),)),
    "no-broker": ("mqtt.brokers", (('brokers = ["localhost:1883"]', "brokers = []"),)),
    "unknown-protocol": ("mqtt.protocol", (('protocol = "5"', 'protocol = "4"'),)),
    "unknown-confirmation": (f"{TABLE}.confirm", (('confirm = "auto"', 'confirm = "no"'),)),
    "expect-is-text": (f"{WHEEL}.expect", (('{ pockets = "37" }', "{ pockets = 37 }"),)),
    # missing things
    "missing-site": ("site", (('site = "helsinki-1"', ""),)),
    "missing-section": ("signing", (('[signing]\nkey = "/etc/dollyd/signing.pem"', ""),)),
    "missing-tables": ("tables", ((EXAMPLE[EXAMPLE.index("[tables.roulette-1]") :], ""),)),
    "no-table": ("tables", ((EXAMPLE[EXAMPLE.index("[tables.roulette-1]") :], "[tables]"),)),
    "missing-stakes": (
        f"{TABLE}.stakes",
        (('stakes = { minimum = 100, maximum = 100000, currency = "EUR" }', ""),),
    ),
    "missing-port": (
        f"{WHEEL}.port",
        (('port = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0"', ""),),
    ),
    "no-device": (
        f"{TABLE}.devices",
        ((EXAMPLE[EXAMPLE.index("[tables.roulette-1.devices.wheel]") :], "[tables.roulette-1.devices]"),),
    ),
    # names
    "bad-site-name": ("site", (('"helsinki-1"', '"Helsinki"'),)),
    "wildcard-in-node-name": ("node", (('"pit3-box1"', '"pit3/#"'),)),
    "bad-table-name": (
        "tables.R1",
        (
            (
                EXAMPLE[EXAMPLE.index("[tables.roulette-1]") :],
                EXAMPLE[EXAMPLE.index("[tables") :].replace("roulette-1", "R1"),
            ),
        ),
    ),
    "bad-device-name": (f"{TABLE}.devices.Odds", (("devices.odds]", "devices.Odds]"),)),
    # rules
    "unknown-game": (f"{TABLE}.game", (('game = "roulette"', 'game = "poker"'),)),
    "unknown-variant": (f"{TABLE}.variant", (('variant = "B"', 'variant = "G"'),)),
    "unknown-rulebook": (f"{TABLE}.rulebook", (('"fi-ray-2013-roulette"', '"fi-ray-2014-roulette"'),)),
    "unknown-profile": (f"{TABLE}.profile", (('"fi-ray-2013"\n', '"mars"\n'),)),
    "missing-rule-file": (f"{TABLE}.profile", (('"fi-ray-2013"\n', '"house.toml"\n'),)),
    "zero-rule-not-of-the-variant": (
        f"{TABLE}.zero_rule",
        (("quarters = false", 'zero_rule = "half"\nquarters = false'),),
    ),
    "zero-rule-not-chosen": (f"{TABLE}.zero_rule", (('variant = "B"', 'variant = "D"'),)),
    "stakes-upside-down": (f"{TABLE}.stakes", (("minimum = 100,", "minimum = 100001,"),)),
    "negative-stakes": (f"{TABLE}.stakes.minimum", (("minimum = 100,", "minimum = -1,"),)),
    "stakes-with-cents": (f"{TABLE}.stakes.minimum", (("minimum = 100,", "minimum = 0.5,"),)),
    "bad-timezone": ("gaming_day", (('"Europe/Helsinki"', '"Europe/Helsingfors"'),)),
    "bad-boundary": ("gaming_day", (('"06:00"', '"6 in the morning"'),)),
    # devices
    "unknown-driver": (f"{WHEEL}.driver", (('driver = "cammegh-ss2"', 'driver = "cammegh-ss3"'),)),
    "unknown-role": (f"{WHEEL}.role", (('role = "wheel"', 'role = "dice"'),)),
    "role-not-of-the-driver": (f"{ODDS}.role", (('role = "odds"', 'role = "dice"'),)),
    "unknown-option": (
        f"{WHEEL}.options.poll",
        (('role = "wheel"', 'role = "wheel"\noptions = { poll = 1 }'),),
    ),
    "option-of-wrong-type": (
        f"{WHEEL}.options.polled",
        (('role = "wheel"', 'role = "wheel"\noptions = { polled = 1 }'),),
    ),
    "option-flag-for-number": (
        f"{WHEEL}.options.poll_ms",
        (('role = "wheel"', 'role = "wheel"\noptions = { poll_ms = true }'),),
    ),
    "38-pockets-on-a-37-pocket-game": (f"{WHEEL}.expect.pockets", (('pockets = "37"', 'pockets = "38"'),)),
    "37-pockets-on-a-38-pocket-game": (f"{WHEEL}.expect.pockets", (('variant = "B"', 'variant = "E"'),)),
    "b-without-an-odds-box": (f"{TABLE}.devices", (without_odds_box(),)),
    "two-odds-boxes": (f"{TABLE}.devices", (second_odds_box(),)),
    "no-secret-file-named": (f"{ODDS}.secret_file", (('secret_file = "odds.key"', ""),)),
    "secret-file-missing": (f"{ODDS}.secret_file", (('"odds.key"', '"evens.key"'),)),
    "port-used-twice": (f"{ODDS}.port", (("A50285BJ", "A50285BI"),)),
    "port-used-by-another-table": ("tables.roulette-2.devices.wheel.port", (second_table(),)),
}


@pytest.mark.parametrize(("key", "changes"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_configuration_is_refused(tmp_path: Path, key: str, changes: tuple[Change, ...]) -> None:
    assert refused(written(tmp_path, *changes)).key == key


def test_a_short_secret_is_refused_and_not_shown(tmp_path: Path) -> None:
    error = refused(written(tmp_path, secret=b"fifteen bytes!!"))
    assert error.key == f"{ODDS}.secret_file"
    assert "fifteen" not in str(error)


def test_turns_that_no_device_proves_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = replace(
        DRIVERS["cammegh-ss2"], roles={"wheel": Place(ROULETTE, frozenset({Proof.NUMBER, Proof.DIRECTION}))}
    )
    monkeypatch.setitem(DRIVERS, "cammegh-ss2", blind)
    load(written(tmp_path))  # the Finnish profile asks for none
    error = refused(written(tmp_path, ('"fi-ray-2013"\n', '"us-sd"\n')))
    assert (error.key, error.problem) == (
        f"{TABLE}.devices",
        "no device proves ball-turns that are certified or counted or reported, the profile asks for them",
    )


def test_turns_that_are_proven_in_a_way_that_is_not_enough_are_refused(tmp_path: Path) -> None:
    # An automatic wheel only certifies them: every round would be unresolved.
    profile = HOUSE_PROFILE + "ball_min_turns = 4\n"
    (tmp_path / "house.toml").write_text(profile + 'turns_basis = ["counted"]\n')
    error = refused(written(tmp_path, ('"fi-ray-2013"\n', '"house.toml"\n')))
    assert (error.key, error.problem) == (
        f"{TABLE}.devices",
        "no device proves ball-turns that are counted, the profile asks for them",
    )
    (tmp_path / "house.toml").write_text(profile + 'turns_basis = ["counted", "certified"]\n')
    load(written(tmp_path, ('"fi-ray-2013"\n', '"house.toml"\n')))


def test_a_ball_detector_proves_no_turns_of_the_wheel(tmp_path: Path) -> None:
    (tmp_path / "house.toml").write_text(HOUSE_PROFILE + "wheel_min_turns = 4\n")
    devices = ("winning-number-line wheel", "tlp ball")
    error = refused(game_file(tmp_path, table_of("roulette", *devices, profile="house.toml")))
    assert "no device proves wheel-turns" in error.problem


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("poll_ms", "99", "give 100 to 500, the status period"),
        ("poll_ms", "501", "give 100 to 500, the status period"),
        ("rotor_rpm_x10_max", "0", "give 100 to 999"),
    ],
)
def test_an_option_that_lets_no_round_come_to_a_result_is_refused(
    tmp_path: Path, option: str, value: str, allowed: str
) -> None:
    change = ('role = "wheel"', f'role = "wheel"\noptions = {{ {option} = {value} }}')
    error = refused(written(tmp_path, change))
    assert (error.key, error.problem, error.remedy) == (
        f"{WHEEL}.options.{option}",
        f"{value} is out of range",
        allowed,
    )


def test_a_wheel_may_be_polled_as_often_as_its_period_says(tmp_path: Path) -> None:
    options = 'role = "wheel"\nstatus_period_ms = 1000\noptions = { polled = true, poll_ms = 1000 }'
    load(written(tmp_path, ('role = "wheel"', options)))


def test_a_direction_that_no_device_proves_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Place(ROULETTE, frozenset({Proof.NUMBER, Proof.BALL_TURNS}), CERTIFIED)
    blind = replace(DRIVERS["cammegh-ss2"], roles={"wheel": turns})
    monkeypatch.setitem(DRIVERS, "cammegh-ss2", blind)
    assert "direction" in refused(written(tmp_path, ('"fi-ray-2013"\n', '"us-sd"\n'))).problem


def test_quarters_that_the_rulebook_does_not_pay_are_refused(tmp_path: Path) -> None:
    shipped = files("dollyd").joinpath("config", "rulebooks", "fi-ray-2013-roulette.toml").read_text()
    (tmp_path / "house.toml").write_text(shipped.replace("quarter_odds = 3", ""))
    changes = (('"fi-ray-2013-roulette"', '"house.toml"'), ("quarters = false", "quarters = true"))
    assert refused(written(tmp_path, *changes)).key == f"{TABLE}.quarters"


def test_a_broken_rule_file_is_named_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "house.toml").write_text('id = "house"\ngames = { roulette = { source = "x", turns = 4 } }\n')
    error = refused(written(tmp_path, ('"fi-ray-2013"\n', '"house.toml"\n')))
    assert error.key == f"{TABLE}.profile"
    assert "turns" in error.problem


def test_a_profile_without_the_game_is_refused(tmp_path: Path) -> None:
    (tmp_path / "house.toml").write_text('id = "house"\ngames = {}\n')
    error = refused(written(tmp_path, ('"fi-ray-2013"\n', '"house.toml"\n')))
    assert (error.key, error.problem) == (f"{TABLE}.profile", "profile house says nothing of roulette")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere.toml").key == ""


@pytest.mark.parametrize("data", [b"site = ", b'site = "\xff"'], ids=["not-toml", "not-utf-8"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "dollyd.toml"
    path.write_bytes(data)
    assert "not valid TOML" in refused(path).problem


# --- every game ------------------------------------------------------------------------------------------

HEAD = """
site = "s"
node = "n"
journal = { path = "journal.db" }
signing = { key = "signing.pem" }
"""


def table_of(
    name: str, *devices: str, layout: str = "", variant: str = "", profile: str = "", **more: str
) -> str:
    """A table of this game under its shipped texts; devices as `driver role`."""
    book, usual_variant, usual_profile, usual_layout = TEXTS[name]
    keys = {
        "game": name,
        "variant": variant or usual_variant,
        "rulebook": book,
        "profile": profile or usual_profile,
        "layout": layout or usual_layout,
        **more,
    }
    lines = [f'{key} = "{value}"' for key, value in keys.items() if value]
    text = "\n".join(["[tables.t]", *lines, 'stakes = { minimum = 1, maximum = 2, currency = "EUR" }\n'])
    for number, device in enumerate(devices):
        driver, role = device.split()
        text += f'[tables.t.devices.{role}-{number}]\nport = "/dev/d{number}"\n'
        text += f'driver = "{driver}"\nrole = "{role}"\n'
    return text


def game_file(folder: Path, table: str) -> Path:
    path = folder / "dollyd.toml"
    path.write_text(HEAD + table)
    return path


@pytest.mark.parametrize("name", TEXTS)
def test_every_game_loads_under_its_shipped_texts(tmp_path: Path, name: str) -> None:
    (role,) = GAMES[name].roles
    table = load(game_file(tmp_path, table_of(name, f"tlp {role}", "tlp console"))).tables["t"]
    assert table.setup.game is GAMES[name]
    assert table.setup.witnesses == (f"{role}-0",)
    reader = table.devices[f"{role}-0"].setup
    assert reader.readings == GAMES[name].values(table.setup.layout)
    assert reader.game == name
    assert table.setup.witness_timeout_ms == 1_000


@pytest.mark.parametrize(
    ("table", "key", "says"),
    [
        pytest.param(
            table_of("boule", "tlp wheel").replace('layout = "boule-synthetic"\n', ""),
            "layout",
            "boule needs the layout of its wheel",
            id="boule-without-its-order-of-cups",
        ),
        pytest.param(
            table_of("sic-bo", "tlp dice", layout="boule-synthetic"),
            "layout",
            "sic-bo has no layout",
            id="dice-with-a-layout",
        ),
        pytest.param(
            table_of("boule", "tlp wheel", layout="roulette-european"),
            "layout",
            "clockwise",
            id="other-wheel",
        ),
        pytest.param(
            table_of("craps", "tlp dice", zero_rule="half"), "zero_rule", "zero rule", id="zero-rule-of-dice"
        ),
        pytest.param(
            table_of("craps", "tlp dice", profile="fi-ray-2013"),
            "profile",
            "says nothing of craps",
            id="craps-in-finland",
        ),
        pytest.param(
            table_of("craps", "tlp dice", profile="settled.toml"),
            "profile",
            "void_until = 'settled' is not carried out yet",
            id="void-until-settled",
        ),
        pytest.param(
            table_of("tuplanoppa", "tlp console"), "devices", "nothing reads the outcome", id="console-alone"
        ),
        pytest.param(
            table_of("roulette", "tlp ball"), "devices", "nothing reads the outcome", id="ball-detector-alone"
        ),
        pytest.param(
            table_of("tuplanoppa", "cammegh-ss2 wheel"),
            "devices.wheel-0.role",
            "cannot be 'wheel' of tuplanoppa",
            id="a-wheel-for-dice",
        ),
        pytest.param(
            table_of("roulette", "winning-number-line wheel", variant="E", profile="us-sd"),
            "devices",
            "no device proves ball-turns",
            id="a-bare-number-where-turns-are-asked",
        ),
    ],
)
def test_a_table_that_cannot_be_is_refused(tmp_path: Path, table: str, key: str, says: str) -> None:
    (tmp_path / "settled.toml").write_text('id = "x"\n[games.craps]\nsource = "x"\nvoid_until = "settled"\n')
    error = refused(game_file(tmp_path, table))
    assert error.key == f"tables.t.{key}"
    assert says in error.problem


def test_a_bare_number_is_enough_where_the_dealer_confirms(tmp_path: Path) -> None:
    devices = ("winning-number-line wheel", "tlp ball")
    dakota = table_of("roulette", *devices, variant="E", profile="us-sd", confirm="dealer")
    setup = load(game_file(tmp_path, dakota)).tables["t"].setup
    assert (setup.witnesses, setup.supporters, setup.confirm) == (("wheel-0",), ("ball-1",), "dealer")


def test_turns_are_proven_by_a_ball_detector_beside_a_bare_number(tmp_path: Path) -> None:
    shipped = files("dollyd").joinpath("config", "profiles", "us-sd.toml").read_text()
    assert shipped.count("ball_direction_opposite_required = true") == 1
    (tmp_path / "house.toml").write_text(shipped.replace("ball_direction_opposite_required = true\n", ""))
    bare = table_of("roulette", "winning-number-line wheel", variant="E", profile="house.toml")
    assert "turns" in refused(game_file(tmp_path, bare)).problem
    watched = table_of("roulette", "winning-number-line wheel", "tlp ball", variant="E", profile="house.toml")
    assert load(game_file(tmp_path, watched)).tables["t"].setup.rules.ball_min_turns == 4


@pytest.mark.parametrize(
    ("name", "variant"), [("roulette", "C"), ("tuplanoppa", "B"), ("sic-bo", "standard")]
)
def test_a_replayed_table_has_the_device_that_reads_its_game(name: str, variant: str) -> None:
    (role,) = GAMES[name].roles
    assert [(d.name, d.role) for d in shipped_table(name, variant, "tlp").setup.devices] == [("tlp", role)]


def test_a_replay_of_a_game_whose_wheel_is_measured_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="needs the layout of its wheel"):
        shipped_table("boule", "standard", "tlp")
    with pytest.raises(ConfigError, match="no game 'poker'"):
        shipped_table("poker", "A", "tlp")
