"""TLP/1 devices and displays with the real core: from sentences to records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.support.tables import HURRIED
from tests.support.tlp_lines import OPENED_MS
from tests.support.tlp_speakers import Camera, Console, Detector, MoneyWheel, Wheel

from dollyd.daemon.core.events import HouseEvent, Seated, ShooterDeclined, TableOpened
from dollyd.daemon.settings.load import load
from dollyd.daemon.table.engine import Engine, Input, NewRecord, Op, house
from dollyd.drivers.framing import Frame, LineDecoder
from dollyd.wire.stamp import NS_PER_MS, Stamp

HEAD = """
site = "s"
node = "n"
journal = {{ path = "j" }}
signing = {{ key = "k" }}
[tables.t]
game = "{game}"
variant = "{variant}"
rulebook = "{rulebook}"
profile = "{profile}"
confirm = "{confirm}"
stakes = {{ minimum = 1, maximum = 2, currency = "EUR" }}
"""
DEVICE = """
[tables.t.devices.{name}]
driver = "{driver}"
role = "{role}"
port = "/dev/{name}"
"""
GAMES = {
    "roulette": ("A", "fi-ray-2013-roulette", ""),
    "boule": ("standard", "fi-ray-2013-boule", "boule-synthetic"),
    "money-wheel": ("standard", "fi-ray-2013-money-wheel", "money-wheel-synthetic"),
    "tuplanoppa": ("B", "fi-ray-2013-tuplanoppa", ""),
    "sic-bo": ("standard", "fi-ray-2013-sic-bo", ""),
    "craps": ("place", "qc-r3-95.17-craps", ""),
}


class Table:
    """A table as configured, in virtual time; ticks come at the deadlines."""

    def __init__(
        self, folder: Path, game: str, *roles: str, profile: str = "fi-ray-2013", confirm: str = "auto"
    ) -> None:
        variant, rulebook, layout = GAMES[game]
        text = HEAD.format(game=game, variant=variant, rulebook=rulebook, profile=profile, confirm=confirm)
        text += f'layout = "{layout}"\n' if layout else ""
        for role in roles:
            driver = "winning-number-line" if role == "display" else "tlp"
            text += DEVICE.format(name=role, driver=driver, role="wheel" if role == "display" else role)
        (folder / "dollyd.toml").write_text(text)
        table = load(folder / "dollyd.toml").tables["t"]
        devices = {name: one.driver.protocol(one.setup) for name, one in table.devices.items()}
        setup = replace(table.setup, rules=structs.replace(table.setup.rules, **HURRIED))
        self.engine = Engine(setup, devices)
        self.records: list[NewRecord] = []
        self.now_ms = OPENED_MS
        for name in devices:
            self._feed(Input(Op.OPEN, self.at, name))
        self.house(TableOpened("t"))

    @property
    def at(self) -> Stamp:
        return Stamp(self.now_ms * NS_PER_MS, self.now_ms * NS_PER_MS)

    def hear(self, device: str, *lines: bytes) -> Table:
        for line in lines:
            self.wait(2)
            for frame in LineDecoder().feed(line):
                assert isinstance(frame, Frame)
                self._feed(Input(Op.FRAME, self.at, device, frame.raw.decode("latin-1")))
        return self

    def house(self, event: HouseEvent) -> None:
        self._feed(house(event, self.at))

    def wait(self, ms: int) -> Table:
        until_ms = self.now_ms + ms
        while (due_ns := self.engine.deadline_ns()) is not None and due_ns <= until_ms * NS_PER_MS:
            self.now_ms = max(self.now_ms, -(-due_ns // NS_PER_MS))
            self._feed(Input(Op.TICK, self.at))
        self.now_ms = until_ms
        return self

    def _feed(self, item: Input) -> None:
        first_words = b'{"what":"device-ready"'  # told of every device of any table
        self.records += [r for r in self.engine.feed(item).records if not r.body.startswith(first_words)]

    @property
    def kinds(self) -> list[str]:
        """What was recorded, without what is recorded at any table."""
        return [str(r.kind) for r in self.records if str(r.kind) not in ("session", "round", "bets-closed")]

    def last(self) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.json.decode(self.records[-1].body)
        return body

    @property
    def verdict(self) -> str:
        """Kind of the last record, with its rule where it has one."""
        body = self.last()
        return f"{self.records[-1].kind} {body.get('rule', '')}".strip()


# --- roulette and boule ------------------------------------------------------------------------------


def spin(wheel: Wheel, laps: int, flags: str = "00", lost: int = 0) -> list[bytes]:
    lines = [*wheel.before(), wheel.sta(2), wheel.sta(3), *wheel.laps(laps), wheel.sta(4, flags=flags)]
    return [*lines[: len(lines) - 1 - lost], lines[-1], wheel.sta(5), wheel.res(laps=str(laps), flags=flags)]


@pytest.mark.parametrize(
    ("laps", "lost", "verdict"),
    [
        (3, 0, "void too-few-turns"),
        (4, 0, "result"),
        (4, 1, "unresolved turns-uncertain"),
        (5, 1, "result"),
    ],
)
def test_t31_four_laps_are_enough_and_three_are_not(
    tmp_path: Path, laps: int, lost: int, verdict: str
) -> None:
    table = Table(tmp_path, "roulette", "wheel", profile="us-sd")
    table.hear("wheel", *spin(Wheel(), laps, lost=lost))
    assert table.verdict == verdict
    if verdict == "result":
        assert table.last()["outcome"]["pocket"] == "28"
        assert table.last()["evidence"]["witnesses"][0]["turns_basis"] == "counted"


def test_t32_a_ball_in_the_direction_of_the_wheel_is_no_spin(tmp_path: Path) -> None:
    table = Table(tmp_path, "roulette", "wheel", profile="us-sd")
    assert table.hear("wheel", *spin(Wheel(), 6, flags="02")).verdict == "void ball-with-rotor"
    assert table.kinds == ["void"]


def test_t33_a_ball_that_left_the_wheel_is_void(tmp_path: Path) -> None:
    table = Table(tmp_path, "roulette", "wheel", profile="us-sd")
    assert table.hear("wheel", *spin(Wheel(), 9, flags="100")).verdict == "void ball-out"
    assert table.engine.table.inspection == "ball-out"


def test_a_wheel_that_only_says_its_turns_is_enough_where_the_profile_says_so(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "roulette", "wheel", profile="us-sd"), Wheel()
    table.hear("wheel", *wheel.before(), *wheel.draw(laps=0), wheel.res(laps="12"))
    assert table.verdict == "result"
    silent, wheel = Table(tmp_path, "roulette", "wheel", profile="us-sd"), Wheel()
    silent.hear("wheel", *wheel.before(), *wheel.draw(laps=0), wheel.res(laps=""))
    assert silent.verdict == "unresolved turns-not-proven"


def test_a_wheel_given_up_is_void_and_the_next_game_counts(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "roulette", "wheel"), Wheel()
    table.hear("wheel", *wheel.before(), *wheel.draw(), wheel.sta(4, flags="10"), wheel.sta(6))
    assert table.verdict == "void draw-abandoned"
    table.hear("wheel", wheel.sta(1, "0413"), *wheel.draw("0413"), wheel.res(game="0413"))
    assert table.kinds == ["void", "result"]


def test_46_a_result_repeated_after_a_restart_of_the_wheel_is_no_second_result(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "roulette", "wheel"), Wheel()
    lines = spin(wheel, 5)
    table.hear("wheel", *lines, lines[-1], wheel.reboot(), lines[-1], lines[-1])
    assert table.kinds == ["result"]
    assert table.hear("wheel", wheel.res("29")).kinds == ["result", "incident"]


def test_a_boule_result_names_number_and_cup(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "boule", "wheel"), Wheel("BOULE")
    table.hear("wheel", *wheel.before(), *wheel.draw(), wheel.res("7", "5", "00", "0412", "24"))
    assert table.verdict == "result"
    assert (table.last()["outcome"]["number"], table.last()["outcome"]["cup"]) == ("7", 24)


def test_a_boule_void(tmp_path: Path) -> None:
    table, wheel = Table(tmp_path, "boule", "wheel"), Wheel("BOULE")
    table.hear("wheel", *wheel.before(), *wheel.draw(), wheel.sta(4, flags="40"))
    assert table.verdict == "void foreign-object"


# --- a ball detector beside the wheel ----------------------------------------------------------------


def beside(table: Table, laps: int, wheel: Wheel, ball: Detector, *, tells: bool = True) -> Table:
    ball.way = "1"
    table.hear("ball", ball.hello(), ball.sta(2)).hear("wheel", *wheel.before(), wheel.sta(2), wheel.sta(3))
    table.hear("ball", ball.sta(3), *ball.laps(laps)).hear("wheel", wheel.sta(4))
    if tells:
        table.hear("ball", ball.drop(laps), ball.sta(5), ball.res(str(laps)))
    return table.hear("wheel", wheel.sta(5), wheel.res(laps=""))


@pytest.mark.parametrize(("laps", "verdict"), [(4, "result"), (3, "void too-few-turns")])
def test_a_ball_detector_proves_the_turns_for_a_wheel_that_cannot(
    tmp_path: Path, laps: int, verdict: str
) -> None:
    table = Table(tmp_path, "roulette", "wheel", "ball", profile="us-sd")
    assert beside(table, laps, Wheel(), Detector()).verdict == verdict


def test_a_ball_detector_that_says_nothing_leaves_the_round_unresolved(tmp_path: Path) -> None:
    table = Table(tmp_path, "roulette", "wheel", "ball", profile="us-sd")
    assert beside(table, 5, Wheel(), Detector(), tells=False).kinds == []
    assert table.wait(1_000).verdict == "unresolved witness-missing"


# --- a number alone ----------------------------------------------------------------------------------


def test_a_display_with_a_ball_detector_and_the_dealer(tmp_path: Path) -> None:
    table = Table(tmp_path, "roulette", "display", "ball", "console", profile="us-sd", confirm="dealer")
    ball, console = Detector(), Console()
    table.hear("console", console.hello()).hear("ball", ball.hello(), *ball.run(4)[:4])
    table.hear("console", console.key("BADGE", "D17"), console.key("NMB"))
    table.hear("ball", ball.lap(3), ball.lap(4), ball.drop(4), ball.res("4")).hear("display", b"17\r\n")
    assert table.kinds == []
    table.hear("console", console.key("CONFIRM", "1"))
    assert table.verdict == "result"
    assert table.last()["evidence"]["confirmed_by"] == "console:D17"


def test_a_display_whose_ball_ran_too_short(tmp_path: Path) -> None:
    table = Table(tmp_path, "roulette", "display", "ball", "console", profile="us-sd", confirm="dealer")
    ball, console = Detector(), Console()
    table.hear("console", console.hello(), console.key("NMB")).hear(
        "ball", ball.hello(), *ball.run(3), ball.res("3")
    )
    assert table.verdict == "void too-few-turns"


def test_a_display_at_a_table_that_announces_no_more_bets(tmp_path: Path) -> None:
    table, console = Table(tmp_path, "roulette", "display", "console"), Console()
    table.hear("console", console.hello(), console.key("NMB")).hear("display", b"17\r\n", b"17\r\n")
    assert table.kinds == ["result"]
    assert table.hear("display", b"18\r\n").kinds == ["result", "incident"]
    # Nobody announced this one: it has no round, which is told with the next record.
    table.wait(5_000).hear("display", b"19\r\n").hear("console", console.key("NMB"))
    assert "unresolved" not in table.kinds
    assert table.kinds.count("gap") == table.kinds.count("result") == 1


def test_the_number_of_a_round_that_is_void_already_blocks_nothing(tmp_path: Path) -> None:
    table, console = Table(tmp_path, "roulette", "display", "console"), Console()
    table.hear("console", console.hello(), console.key("NMB"), console.key("VOID"))
    table.hear("display", b"17\r\n").wait(5_000).hear("console", console.key("NMB"))
    table.hear("display", b"18\r\n")
    assert [kind for kind in table.kinds if kind != "incident"] == ["void", "gap", "result"]
    assert table.last()["outcome"]["pocket"] == "18"


# --- money wheel -------------------------------------------------------------------------------------


def turned(
    folder: Path, passes: int, *, touched_at: int = 0, sector: str | None = None, flags: str = "00"
) -> Table:
    table, wheel = Table(folder, "money-wheel", "wheel"), MoneyWheel()
    table.hear("wheel", wheel.hello(), wheel.sta(1), *wheel.turn(-7, touched_at or passes))
    if touched_at:
        table.hear("wheel", wheel.say("FLT", "0077", "20", "TOUCHED"), *wheel.go(passes - touched_at))
    total = str(passes * 100 // 54)
    return table.hear("wheel", *wheel.go(-1), wheel.sta(5), wheel.res(total, flags, sector=sector))


@pytest.mark.parametrize(("passes", "verdict"), [(216, "result"), (215, "void too-few-turns")])
def test_t37_216_passes_are_enough_and_215_are_void(tmp_path: Path, passes: int, verdict: str) -> None:
    table = turned(tmp_path, passes)
    assert table.verdict == verdict
    assert table.kinds == [verdict.split(maxsplit=1)[0]]
    if verdict == "result":
        assert table.last()["outcome"] == {"sector": 47, "symbol": "20"}


def test_t38_a_pointer_on_a_divider_is_void(tmp_path: Path) -> None:
    table = turned(tmp_path, 400, sector="", flags="04")
    assert (table.verdict, table.kinds) == ("void between-sectors", ["void"])


def test_t39_a_hand_on_the_wheel_is_void_at_once(tmp_path: Path) -> None:
    table = turned(tmp_path, 400, touched_at=300)
    assert (table.verdict, table.kinds) == ("void outside-influence", ["void"])


def test_a_wheel_that_ran_away_is_no_result(tmp_path: Path) -> None:
    assert turned(tmp_path, 400, flags="10").verdict == "unresolved rotor-over-speed"


# --- dice --------------------------------------------------------------------------------------------


class DiceTable(Table):
    """Tuplanoppa with a console; the first throw is permitted and bets are closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "tuplanoppa", "dice", "console")
        self.camera, self.console = Camera(), Console()
        self.hear("console", self.console.hello()).hear(
            "dice", self.camera.hello(), self.camera.sta(1, "0000")
        )

    def press(self, *keys: str) -> DiceTable:
        self.hear("console", *(self.console.key(key) for key in keys))
        return self

    def ready(self, game: str) -> DiceTable:
        self.hear("dice", self.camera.sta(2, game))
        return self

    def throw(self, game: str, *faces: str, flags: str = "00", moving: str = "00") -> DiceTable:
        camera = self.camera
        self.hear(
            "dice",
            camera.sta(3, game, moving),
            camera.sta(5, game),
            camera.res(*faces, flags=flags, game=game),
        )
        return self


def test_a_cocked_throw_is_rejected_once_and_the_next_counts_in_the_same_round(tmp_path: Path) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB", "PERMIT").throw("0001", "5", "", flags="01")
    assert (table.verdict, table.kinds) == ("throw-rejected cocked", ["throw-rejected"])
    table.ready("0002").press("PERMIT").throw("0002", "5", "3")
    assert table.kinds == ["throw-rejected", "result"]
    assert [record.round for record in table.records if str(record.kind) == "round"] == [1]
    assert table.records[-1].round == 1
    assert table.last()["outcome"]["sum"] == 8


@pytest.mark.parametrize("flags", ["01", "02", "04", "40", "80", "100", "200"])
@pytest.mark.parametrize("faces", [("5", ""), ("5", "3")])
def test_51_every_flag_against_a_throw_rejects_it_and_blocks_nothing(
    tmp_path: Path, flags: str, faces: tuple[str, ...]
) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB", "PERMIT").throw("0001", *faces, flags=flags)
    assert table.kinds == ["throw-rejected"]
    assert not table.engine.table.blocked


def test_51_a_throw_that_cannot_be_read_is_unresolved(tmp_path: Path) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB", "PERMIT").throw("0001", "5", "", flags="10")
    assert table.verdict == "unresolved unread"


def test_t44_dice_thrown_one_after_the_other_are_no_roll_before_they_lie(tmp_path: Path) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB", "PERMIT").throw("0001", "6", "6", moving="200")
    assert (table.verdict, table.kinds) == ("throw-rejected not-together", ["throw-rejected"])


def test_t45_a_seven_passes_the_dice_on_to_the_next_who_plays(tmp_path: Path) -> None:
    table = DiceTable(tmp_path)
    table.house(Seated("dealer", ("3", "4", "5", "1")))
    table.ready("0001").press("NMB", "PERMIT").throw("0001", "5", "2")
    assert table.last()["outcome"]["shooter"] == "3"
    table.house(ShooterDeclined("dealer"))
    table.house(ShooterDeclined("dealer"))
    assert dict(table.engine.table.memory)["shooter"] == "1"


def test_t46_a_throw_before_the_permission_is_no_result(tmp_path: Path) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB").throw("0001", "6", "6")
    assert (table.verdict, table.kinds) == ("throw-rejected thrown-before-permission", ["throw-rejected"])


def test_a_dealer_rejects_a_throw_before_it_is_read(tmp_path: Path) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB", "PERMIT")
    table.hear("dice", table.camera.sta(3, "0001"))
    table.press("REJECT").hear("dice", table.camera.sta(5, "0001"), table.camera.res("6", "6", game="0001"))
    assert table.verdict == "throw-rejected rejected-by-person"
    table.ready("0002").press("PERMIT").throw("0002", "1", "2")
    assert table.kinds == ["throw-rejected", "result"]


@pytest.mark.parametrize(
    ("game", "profile", "faces"),
    [("sic-bo", "fi-ray-2013", ("1", "1", "2")), ("craps", "qc-r3-95.17", ("5", "3"))],
)
def test_other_dice_games_come_to_a_result(
    tmp_path: Path, game: str, profile: str, faces: tuple[str, ...]
) -> None:
    table = Table(tmp_path, game, "dice", "console", profile=profile)
    camera, console = Camera(len(faces)), Console()
    table.hear("console", console.hello()).hear("dice", camera.hello(), camera.sta(1), camera.sta(2))
    table.hear("console", console.key("NMB"), console.key("PERMIT"))
    table.hear("dice", camera.sta(3), camera.sta(5), camera.res(*faces))
    assert table.verdict == "result"


# --- the console -------------------------------------------------------------------------------------


def test_a_console_opens_and_closes_the_table_and_voids_a_round(tmp_path: Path) -> None:
    table, wheel, console = Table(tmp_path, "roulette", "wheel", "console"), Wheel(), Console()
    table.hear("console", console.hello(), console.key("CLOSE"), console.key("OPEN"))
    assert [str(record.kind) for record in table.records] == ["session"] * 3
    table.hear("wheel", *wheel.before(), *wheel.draw()).hear("console", console.key("VOID", "1"))
    assert table.verdict == "void declared"
    assert table.last()["declared_by"] == "console:console"


@pytest.mark.parametrize(
    ("key", "what"),
    [("VOID", "void-refused"), ("CONFIRM", "confirmation-refused"), ("NMB", "no-more-bets-refused")],
)
def test_47_an_order_for_another_round_is_refused(tmp_path: Path, key: str, what: str) -> None:
    table, wheel, console = (
        Table(tmp_path, "roulette", "wheel", "console", confirm="dealer"),
        Wheel(),
        Console(),
    )
    lines = [*wheel.before(), *wheel.draw()]
    if key == "NMB":
        lines = lines[:-1]
    elif key == "CONFIRM":
        lines.append(wheel.res())
    table.hear("console", console.hello()).hear("wheel", *lines).hear("console", console.key(key, "8"))
    assert (table.verdict, table.last()["what"]) == ("incident", what)
    assert table.engine.table.round is not None
    assert table.engine.table.round.declared is None
    assert table.engine.table.round.confirmed is None


def test_47_a_late_no_more_bets_opens_no_round(tmp_path: Path) -> None:
    table, console = Table(tmp_path, "roulette", "display", "console"), Console()
    table.hear("console", console.hello(), console.key("NMB", "1")).hear("display", b"17\r\n")
    assert table.verdict == "result"
    table.hear("console", console.key("NMB", "1"))
    assert (table.last()["what"], table.engine.table.round) == ("no-more-bets-refused", None)


@pytest.mark.parametrize("key", ["PERMIT", "REJECT"])
def test_47_a_permission_for_another_round_is_none(tmp_path: Path, key: str) -> None:
    table = DiceTable(tmp_path).ready("0001").press("NMB")
    table.hear("console", table.console.key(key, "9"))
    assert table.verdict == "incident"
    assert table.engine.table.round is not None
    assert table.engine.table.round.throw.permitted is None
    assert table.engine.table.round.throw.rejected is None
