"""One record settles bets: what is refused, limits of the table, corrections, jackpot view, the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import commands
from tests.support.chains import ChainMaker, decision, signer
from tests.support.commands import BOSS, DEALER, INSPECTOR, ROOT, Two, trust_bytes, two
from typer.testing import CliRunner

from dollyd.client import settlement
from dollyd.client.proof.ended import NOT_COMPARED
from dollyd.client.settlement.rulebooks import (
    LoadedRulebook,
    load_rulebook,
    rulebook_of_digest,
    shipped_rulebooks,
)
from dollyd.client.settlement.settle import (
    BETS,
    carried,
    last_results,
    read_round,
    resettle,
    settle,
    settle_correction,
)
from dollyd.client.settlement.spec import Answer, Bet, SettlementError, Verdict
from dollyd.daemon.cli import application
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.rulebook import convert
from dollyd.wire.errors import ConfigError
from dollyd.wire.record import Kind

ROULETTE = load_rulebook("fi-ray-2013-roulette")
RED_NUMBER: dict[str, Any] = {
    "pocket": "32",
    "colour": "red",
    "parity": "even",
    "half": "19-36",
    "dozen": "25-36",
    "column": "2",
    "street": "31-33",
}
_BLACK_AND_ODD = {"colour": "black", "parity": "odd", "half": "1-18", "dozen": "13-24"}
FIFTEEN = {"pocket": "15", "column": "3", "street": "13-15"} | _BLACK_AND_ODD
SEVENTEEN = {"pocket": "17", "column": "2", "street": "16-18"} | _BLACK_AND_ODD
RED = Bet("b1", "roulette", "even_money", ("red",), 100)
STRAIGHT = Bet("b2", "roulette", "straight", ("32",), 100)


def body(variant: str = "C", **more: Any) -> dict[str, Any]:
    named = {"id": ROULETTE.id, "digest": ROULETTE.digest}
    setting = {"game": "roulette", "variant": variant, "rulebook": named, "profile": named}
    return {"setting": setting | {"zero_rule": "lose"}} | more


def result(variant: str = "C", outcome: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    stakes = {"minimum": 50, "maximum": 1000, "currency": "EUR"}
    return payload("result", body(variant, outcome=outcome or RED_NUMBER, stakes=stakes, **more))


def void(policy: str = "player_choice") -> dict[str, Any]:
    return payload("void", body(stake_policy=policy))


def payload(kind: str, record_body: dict[str, Any], round_number: int = 7) -> dict[str, Any]:
    place = {"table": "r1", "chain": "a" * 32, "seq": 21, "round": round_number}
    return {"v": 1, "kind": kind, **place, "body": record_body}


def one(record: dict[str, Any], bet: Bet, rulebook: LoadedRulebook = ROULETTE) -> Answer:
    (answer,) = settle(record, [bet], rulebook)
    return answer


# --- what is settled, and what is refused ----------------------------------------------------------


def test_every_game_has_its_bets() -> None:
    assert list(BETS) == list(GAMES)
    assert all(bets.game == name for name, bets in BETS.items())


def test_answers_come_in_the_order_of_the_bets() -> None:
    black = replace(RED, id="b3", selection=("black",))
    answers = settle(result(), [black, STRAIGHT, RED], ROULETTE)
    assert [(answer.bet, answer.verdict, answer.paid) for answer in answers] == [
        ("b3", Verdict.LOSES, 0),
        ("b2", Verdict.WINS, 3600),
        ("b1", Verdict.WINS, 200),
    ]


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.RESULT, Kind.VOID}))
def test_only_a_result_or_a_void_settles(kind: Kind) -> None:
    with pytest.raises(SettlementError, match="correction" if kind == Kind.CORRECTION else kind.value):
        settle(payload(kind.value, {}), [], ROULETTE)


def test_another_rulebook_is_refused_and_both_are_named() -> None:
    boule = load_rulebook("fi-ray-2013-boule")
    with pytest.raises(SettlementError) as caught:
        one(result(), RED, boule)
    assert ROULETTE.digest in str(caught.value)
    assert boule.digest in str(caught.value)


def test_a_changed_rulebook_is_another_one() -> None:
    data = Path("config/rulebooks/fi-ray-2013-roulette.toml").read_bytes()
    assert one(result(), RED, load_rulebook(data)).paid == 200
    with pytest.raises(SettlementError, match="digest"):
        one(result(), RED, load_rulebook(data.replace(b"quarter_odds = 3", b"quarter_odds = 4")))


@pytest.mark.parametrize(
    ("record", "bet", "reason"),
    [
        (result(), replace(RED, game="boule"), "one of boule"),
        (result(), replace(RED, stake=49), "below the table's minimum of 50"),
        (result(), replace(RED, kind="split", selection=("1", "3")), "b1"),
        (result("Z"), RED, "no roulette variant 'Z'"),
        (result("B"), RED, "no odds table"),
        (result() | {"v": 2}, RED, "version 2"),
        (result() | {"body": {}}, RED, "not the form"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(record: dict[str, Any], bet: Bet, reason: str) -> None:
    with pytest.raises(SettlementError, match=reason):
        one(record, bet)


def test_the_odds_table_of_the_record_counts() -> None:
    for table, profit in ((1, 3000), (2, 6000)):
        assert one(result("B", odds={"table": table}), STRAIGHT).profit == profit


# --- the limits of the table -----------------------------------------------------------------------


def test_t27_what_is_above_the_maximum_is_invalid_and_goes_back() -> None:
    answer = one(result(), replace(RED, stake=1500))
    assert (answer.profit, answer.returned, answer.invalid, answer.paid) == (1000, 1000, 500, 2500)


def test_what_is_above_the_maximum_goes_back_from_a_lost_bet_too() -> None:
    answer = one(result(), replace(RED, selection=("black",), stake=1500))
    assert (answer.verdict, answer.paid) == (Verdict.LOSES, 500)


def test_the_minimum_itself_is_accepted() -> None:
    assert one(result(), replace(RED, stake=50)).profit == 50


def test_an_imprisoned_stake_was_measured_when_it_was_placed() -> None:
    zero = dict.fromkeys(RED_NUMBER, "none") | {"pocket": "0", "colour": "green", "zeros_in_a_row": 1}
    record = result("D", zero)
    record["body"]["setting"]["zero_rule"] = "prison"
    bet = replace(RED, stake=1500)
    answer = one(record, bet)
    assert (answer.verdict, answer.invalid) == (Verdict.STAYS, 500)
    following = carried(bet, answer)
    assert following is not None
    assert following.stake == 1000
    record["body"]["outcome"] = RED_NUMBER | {"zeros_in_a_row": 0}
    record["body"]["stakes"]["maximum"] = 200
    freed = one(record, following)
    assert (freed.verdict, freed.returned, freed.invalid) == (Verdict.RETURNED, 1000, 0)
    assert carried(following, freed) is None


@pytest.mark.parametrize(
    ("policy", "verdict"), [("player_choice", Verdict.RETURNED), ("carried", Verdict.STAYS)]
)
def test_t28_a_void_does_with_stakes_what_the_profile_says(policy: str, verdict: Verdict) -> None:
    answer = one(void(policy), replace(RED, stake=1500))
    assert (answer.verdict, answer.invalid) == (verdict, 0)
    assert answer.paid == (1500 if verdict is Verdict.RETURNED else 0)


# --- rulebooks -------------------------------------------------------------------------------------


def test_every_shipped_rulebook_is_found_by_its_digest() -> None:
    for name in shipped_rulebooks():
        rulebook = load_rulebook(name)
        assert rulebook_of_digest(rulebook.digest) == rulebook
        assert load_rulebook(f"config/rulebooks/{name}.toml") == rulebook


@pytest.mark.parametrize("source", ["nowhere", "nowhere.toml", b"id = 3", b"\xff"])
def test_a_rulebook_that_is_none_is_refused(source: str | bytes) -> None:
    with pytest.raises(SettlementError, match="rulebook"):
        load_rulebook(source)
    with pytest.raises(SettlementError, match="digest"):
        rulebook_of_digest("0" * 64)


# --- corrections and the jackpot view --------------------------------------------------------------


def test_a_correction_shows_what_is_taken_back_and_what_counts() -> None:
    wrong = settle(result(outcome=FIFTEEN), [RED, STRAIGHT], ROULETTE)
    right = settle(result(), [RED, STRAIGHT], ROULETTE)
    adjustments = resettle(wrong, right)
    assert [(a.bet, a.reversed.paid, a.settled.paid, a.difference) for a in adjustments] == [
        ("b1", 0, 200, 200),
        ("b2", 0, 3600, 3600),
    ]
    assert [a.difference for a in resettle(right, wrong)] == [-200, -3600]


def correction(after: dict[str, Any], round_number: int = 7) -> dict[str, Any]:
    wrong = {"kind": "result", "outcome": FIFTEEN}
    stakes = {"minimum": 50, "maximum": 1000, "currency": "EUR"}
    return payload("correction", body(before=wrong, after=after, stakes=stakes), round_number)


def test_a_correction_record_settles_its_round_again() -> None:
    right = correction({"kind": "result", "outcome": RED_NUMBER})
    adjustments = settle_correction(right, [RED, STRAIGHT], ROULETTE)
    assert [(a.reversed.paid, a.settled.paid) for a in adjustments] == [(0, 200), (0, 3600)]
    no_round = correction({"kind": "void", "stake_policy": "player_choice"})
    assert [a.difference for a in settle_correction(no_round, [RED, STRAIGHT], ROULETTE)] == [100, 100]


def test_a_corrected_void_had_no_maximum() -> None:
    """The correction says the stakes of the round; what its void did with too high a stake is taken back."""
    stake = replace(RED, stake=1500)
    for policy, before in (("carried", 0), ("returned", 1500)):
        record = correction({"kind": "result", "outcome": RED_NUMBER})
        record["body"]["before"] = {"kind": "void", "stake_policy": policy}
        (adjustment,) = settle_correction(record, [stake], ROULETTE)
        assert adjustment.reversed == one(void(policy), stake)
        assert (adjustment.reversed.paid, adjustment.settled.paid) == (before, 2500)


@pytest.mark.parametrize("record", [result(), void(), payload("correction", {})])
def test_what_is_no_correction_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(SettlementError, match="form of a correction"):
        settle_correction(record, [RED], ROULETTE)


def test_a_correction_is_about_the_same_bets() -> None:
    answers = settle(result(), [RED, STRAIGHT], ROULETTE)
    for other in (answers[:1], [answers[0], answers[0]], [*answers, answers[0]]):
        with pytest.raises(SettlementError, match="same bets"):
            resettle(answers, other)


def test_the_last_results_skip_voids_and_take_the_superseding_one() -> None:
    results = [payload("result", {"n": number}, number) for number in (1, 2, 4, 5)]
    records = [*results[:2], payload("void", {}, 3), payload("round", {}, 4), *results[2:]]
    assert [record["round"] for record in last_results(records, 3)] == [2, 4, 5]
    assert [record["round"] for record in last_results(records, 9)] == [1, 2, 4, 5]
    assert last_results(records, 0) == []
    again = payload("result", {"n": 40}, 4)
    assert [record["body"]["n"] for record in last_results([*records, again], 3)] == [2, 40, 5]
    right = correction({"kind": "result", "outcome": {"n": 41}}, 4)
    assert [record["body"]["outcome"]["n"] for record in last_results([*records, right], 2)[:1]] == [41]
    no_round = correction({"kind": "void", "stake_policy": "returned"}, 4)
    assert [record["round"] for record in last_results([*records, no_round], 9)] == [1, 2, 5]
    void_made_good = correction({"kind": "result", "outcome": {"n": 30}}, 3)
    assert [record["round"] for record in last_results([*records, void_made_good], 9)] == [1, 2, 3, 4, 5]
    assert [record["round"] for record in last_results([*records, no_round, right], 9)] == [1, 2, 4, 5]


def test_a_correction_of_a_round_before_the_first_is_not_taken_for_the_last_result() -> None:
    results = [payload("result", {"n": number}, number) for number in (10, 11)]
    before = correction({"kind": "result", "outcome": {"n": 30}}, 3)
    within = correction({"kind": "result", "outcome": {"n": 100}}, 10)
    assert last_results([*results, before], 2) == results
    last = last_results([results[0], before, within, results[1]], 2)
    assert [record["round"] for record in last] == [10, 11]
    assert last[0]["body"]["outcome"] == {"n": 100}


# --- the command -----------------------------------------------------------------------------------

BETS_TEXT = [
    {"id": "b1", "kind": "even_money", "selection": ["red"], "stake": 1500},
    {"id": "b2", "kind": "straight", "selection": ["17"], "stake": 100},
]


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """Arguments of `dollyd settle` for a signed record and the bets above, with files changed at will."""

    def arguments(bets: str = json.dumps(BETS_TEXT), record: bytes = b"", by: int = 1) -> list[str]:
        envelope = ChainMaker().begin().add(Kind.RESULT, 1, decision() | result()["body"])
        (tmp_path / "record").write_bytes(record or envelope + b"\n")
        (tmp_path / "bets").write_text(bets)
        (tmp_path / "keys").write_text(json.dumps({"keys": [signer(by).jwk]}))
        files = [f"--{name}={tmp_path / name}" for name in ("record", "bets", "keys")]
        return ["settle", *files]

    return arguments


def test_the_command_prints_what_becomes_of_each_bet(command: Callable[..., list[str]]) -> None:
    said = CliRunner().invoke(application, command())
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert lines[0] == "table r1, round 1: result; signature good"
    assert lines[2].split() == ["b1", "wins", "1000", "1000", "500", "2500"]
    assert lines[3].split() == ["b2", "loses", "0", "0", "0", "0"]
    assert lines[-1] == "paid 2500"


def test_the_command_gives_json_and_says_whether_it_was_verified(command: Callable[..., list[str]]) -> None:
    for arguments, verified in ((command(), True), (command()[:-1], False)):
        said = CliRunner().invoke(application, [*arguments, "--json"])
        answer = json.loads(said.stdout)
        assert answer["verified"] is verified
        assert said.exit_code == (0 if verified else 3)
        assert [bet["paid"] for bet in answer["answers"]] == [2500, 0]
        assert answer["rulebook"]["digest"] == ROULETTE.digest


def test_without_keys_nobody_vouches_for_what_was_settled(command: Callable[..., list[str]]) -> None:
    arguments = command()[:-1]
    said = CliRunner().invoke(application, arguments)
    assert said.exit_code == 3
    assert "signature NOT CHECKED (no --keys, no --trust): nobody vouches for it" in said.stdout
    assert CliRunner().invoke(application, [*arguments, "--unpinned"]).exit_code == 0


def test_the_command_shows_both_answers_of_a_correction(command: Callable[..., list[str]]) -> None:
    wrong = {"kind": "result", "outcome": RED_NUMBER}
    right = {"kind": "result", "outcome": SEVENTEEN}
    stakes = {"minimum": 50, "maximum": 1000, "currency": "EUR"}
    record = commands.correction(
        agreed("17"), before=wrong, after=right, corrects=4, stakes=stakes, setting=body()["setting"]
    )
    arguments = command(record=ChainMaker().begin().add(Kind.CORRECTION, 1, record))
    said = CliRunner().invoke(application, arguments)
    assert said.exit_code == 0, said.output
    lines = [line.split() for line in said.stdout.splitlines()]
    told = said.stdout.splitlines()
    assert told[0] == ("table r1, round 1: correction; signature good; two persons NOT CHECKED (no --trust)")
    assert told[1] == f"NOT CHECKED: {NOT_COMPARED}"
    assert lines[3:] == [
        ["b1", "reversed", "wins", "-1000", "-1000", "-500", "-2500"],
        ["b1", "settled", "loses", "0", "0", "500", "500"],
        ["b1", "difference", "-2000"],
        ["b2", "reversed", "loses", "0", "0", "0", "0"],
        ["b2", "settled", "wins", "3500", "100", "0", "3600"],
        ["b2", "difference", "+3600"],
        ["difference", "+1600"],
    ]
    answer = json.loads(CliRunner().invoke(application, [*arguments, "--json"]).stdout)
    assert (answer["kind"], answer["corrects"]) == ("correction", 4)
    assert "answers" not in answer
    first = answer["adjustments"][0]
    assert (first["reversed"]["paid"], first["settled"]["paid"], first["difference"]) == (2500, 500, -2000)


def agreed(pocket: str) -> Two:
    return two("correct", (INSPECTOR, BOSS), value=[pocket])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"approvals": []}, "0 persons stand behind it"),
        ({"after": {"kind": "result", "outcome": SEVENTEEN | {"colour": "red"}}}, "colour is 'red'"),
        ({"element": "verdict"}, "its element"),
        ({"id": "d" * 64}, "its id is not the digest"),
    ],
)
def test_attack_1_and_5_what_one_record_shows_to_be_wrong_settles_nothing(
    command: Callable[..., list[str]], changed: dict[str, Any], reason: str
) -> None:
    before, after = ({"kind": "result", "outcome": outcome} for outcome in (RED_NUMBER, SEVENTEEN))
    good = commands.correction(agreed("17"), before=before, after=after, setting=body()["setting"])
    for record, wrong in ((good, False), (good | changed, True)):
        said = CliRunner().invoke(
            application, command(record=ChainMaker().begin().add(Kind.CORRECTION, 1, record))
        )
        assert isinstance(said.exception, ConfigError) == wrong, said.output
        assert not wrong or reason in str(said.exception)


def test_attack_1_persons_that_the_trust_file_does_not_know_settle_nothing(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    before, after = ({"kind": "result", "outcome": outcome} for outcome in (RED_NUMBER, SEVENTEEN))
    good = commands.correction(agreed("17"), before=before, after=after, setting=body()["setting"])
    arguments = command(record=ChainMaker().begin().add(Kind.CORRECTION, 1, good))[:-1]
    for file, settles in ((trust_bytes(), True), (trust_bytes(DEALER), False)):
        (tmp_path / "trust").write_bytes(file)
        said = CliRunner().invoke(
            application, [*arguments, f"--trust={tmp_path / 'trust'}", f"--root={ROOT.kid}"]
        )
        assert ("two persons good" in said.stdout) == settles, said.output
        assert isinstance(said.exception, ConfigError) != settles


def test_the_command_reads_standard_input(command: Callable[..., list[str]]) -> None:
    arguments = command()
    envelope = Path(arguments[1].removeprefix("--record=")).read_bytes()
    arguments[1] = "--record=-"
    assert "paid 2500" in CliRunner().invoke(application, arguments, input=envelope).stdout


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"bets": "[{}]"}, "required field"),
        ({"bets": "nothing"}, "malformed"),
        ({"bets": '[{"id": "x", "kind": "straight", "selection": ["99"], "stake": 100}]'}, "bet x"),
        ({"record": b"{}"}, "envelope"),
        ({"by": 2}, "unknown-key"),
    ],
)
def test_an_operators_error_is_one_line(
    command: Callable[..., list[str]], changed: dict[str, Any], reason: str
) -> None:
    said = CliRunner().invoke(application, command(**changed))
    assert isinstance(said.exception, ConfigError)
    assert reason in str(said.exception)
    assert "\n" not in str(said.exception)


@pytest.mark.parametrize("kind", [Kind.ROUND, Kind.KEY, Kind.CORRECTION])
def test_a_record_that_settles_nothing_is_an_operators_error(
    command: Callable[..., list[str]], kind: Kind
) -> None:
    arguments = command(record=ChainMaker().add(kind, 1, {}))
    said = CliRunner().invoke(application, arguments)
    assert isinstance(said.exception, ConfigError), said.output


def test_the_rounding_of_the_rulebook_counts() -> None:
    craps = load_rulebook("qc-r3-95.17-craps")
    record = result("place", {"die_1": 2, "die_2": 4, "sum": 6, "pair": False, "phase": "point", "point": 8})
    named = {"id": craps.id, "digest": craps.digest}
    record["body"]["setting"] |= {"game": "craps", "rulebook": named, "zero_rule": ""}
    right = Bet("b1", "craps", "right", ("6",), 59)  # 7:6 of 59 is 68.83
    assert one(record, right, craps).profit == 69


def test_the_parts_of_a_round_are_read_from_the_record() -> None:
    played = read_round(result("B", odds={"table": 2}), ROULETTE)
    assert (played.odds_table, played.minimum, played.maximum, played.quarter_odds) == (2, 50, 1000, 3)
    assert (played.variant_name, played.zero_rule, played.void) == ("B", "lose", False)


def test_the_package_exports_all_that_settlement_is_done_with() -> None:
    """What README and docs/settlement.md import, from one place."""
    modules = ("rulebooks", "settle")
    made = {f"dollyd.client.settlement.{name}" for name in modules}
    public = {
        name
        for module in made
        for name, value in vars(sys.modules[module]).items()
        if not name.startswith("_") and getattr(value, "__module__", "") in made
    }
    assert public <= set(settlement.__all__)
    assert {"Bet", "Answer", "Choice", "Verdict", "Round", "SettlementError"} <= set(settlement.__all__)
    assert callable(settlement.settle)
    assert all(hasattr(settlement, name) for name in settlement.__all__)


@pytest.mark.parametrize("name", shipped_rulebooks())
def test_every_bet_that_is_listed_is_taken_and_has_odds(name: str) -> None:
    """What docs/settlement.md and docs/bets.json are made of."""
    book = load_rulebook(name)
    game = GAMES[book.book.game]
    for tree in book.book.variants.values():
        variant = convert(tree, game.variant)
        offered = BETS[game.name].offered(variant)
        assert offered
        for kind, selections in offered.items():
            assert len(set(selections)) == len(selections)
            for selection in selections:
                BETS[game.name].check(Bet("b", game.name, kind, selection, 100), variant)
