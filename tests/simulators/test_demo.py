"""What the demo counts as seen: everything at once, and nothing less."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from rich.console import Console, ConsoleDimensions
from tests.support.chains import ChainMaker, signer

from dollyd.simulators.demo import broker, evidence
from dollyd.simulators.demo.checks import EXPECTATIONS, Games
from dollyd.simulators.demo.display import LiveDisplay, PlainDisplay, View, picture, words
from dollyd.simulators.demo.evidence import Finding, Seen
from dollyd.simulators.demo.performance import EXIT_MISSING, EXIT_SEEN, report
from dollyd.simulators.demo.roulette import Game
from dollyd.wire.record import FINAL_KINDS, Kind

COLOURS = {"0": "green", "17": "black", "32": "red"}


def result(game: int, pocket: str, table: int = 1) -> dict[str, Any]:
    outcome = {"pocket": pocket, "colour": COLOURS[pocket]}
    return {"outcome": outcome, "odds": {"table": table}, "evidence": {"game_ref": f"wheel/1/{game:03}"}}


def ended(rule: str, game: int) -> dict[str, Any]:
    return {"rule": rule, "text": rule, "evidence": {"game_ref": f"wheel/1/{game:03}"}}


def incident(what: str) -> dict[str, Any]:
    return {"what": what, "device": "wheel", "text": what, "details": {}}


STORY: list[tuple[Kind, int, dict[str, Any]]] = [
    (Kind.SESSION, 0, {"event": "opened"}),
    (Kind.RESULT, 1, result(1, "17")),
    (Kind.INCIDENT, 2, incident("relaunch")),
    (Kind.RESULT, 2, result(2, "32", table=2)),
    (Kind.VOID, 3, ended("device-fault", 3)),
    (Kind.RESULT, 4, result(3, "0")),
    (Kind.UNRESOLVED, 5, ended("device-lost", 4)),
    (Kind.INCIDENT, 5, incident("device-back")),
    (Kind.VOID, 5, ended("unrecoverable", 4)),
    (Kind.GAP, 0, {"cause": "no-round-open", "games": ["wheel/2/005"], "count": 1}),
    (Kind.RESULT, 6, result(6, "17")),
    (Kind.RESULT, 7, result(7, "32")),
]
GAMES = (
    Game(1, "17", wheel_heard=True, broker_up=True),
    Game(2, "32", wheel_heard=True, broker_up=True),
    Game(3, "", wheel_heard=True, broker_up=True),  # given up, its counter is used again
    Game(3, "0", wheel_heard=True, broker_up=True),
    Game(4, "17", wheel_heard=False, broker_up=True),
    Game(5, "32", wheel_heard=True, broker_up=True),
    Game(6, "17", wheel_heard=True, broker_up=True),
    Game(7, "32", wheel_heard=True, broker_up=False),
)


def chain(story: list[tuple[Kind, int, dict[str, Any]]]) -> tuple[bytes, ...]:
    maker = ChainMaker().begin()
    for kind, number, body in story:
        maker.add(kind, number, body)
    return tuple(maker.envelopes)


def seen(story: list[tuple[Kind, int, dict[str, Any]]] = STORY, **changes: Any) -> Seen[Games]:
    records = chain(story)
    keys = msgspec.json.encode({"keys": [signer().jwk]})
    whole = Seen[Games](GAMES, records, 0, records, keys, 0, "good", "derived")
    return replace(whole, **changes)


def judge(evidence_of: Seen[Games]) -> list[Finding]:
    return evidence.judge(evidence_of, EXPECTATIONS)


def without(number: int) -> list[tuple[Kind, int, dict[str, Any]]]:
    return STORY[:number] + STORY[number + 1 :]


def test_everything_seen_is_success() -> None:
    assert [finding for finding in judge(seen()) if finding.missing] == []
    assert len(judge(seen())) == len(EXPECTATIONS)


BREAKS: dict[str, tuple[Callable[[], Seen[Games]], str]] = {
    "no table 2": (lambda: seen([*STORY[:3], (Kind.RESULT, 2, result(2, "32")), *STORY[4:]]), "odds table 2"),
    "no relaunch": (lambda: seen(without(2)), "no incident `relaunch`"),
    "relaunch without result": (lambda: seen(without(3)), "had no result"),
    "no void by fault": (lambda: seen(without(4)), "device-fault"),
    "never unresolved": (lambda: seen(without(6)), "device-lost"),
    "unresolved stays": (lambda: seen(without(8)), "unrecoverable` of round 5"),
    "wheel not back": (lambda: seen(without(7)), "device-back"),
    "play stops": (lambda: seen(STORY[:10]), "no result after the void"),
    "no outage": (lambda: seen(games=GAMES[:-1]), "finished no game while"),
    "outage lost a game": (lambda: seen(without(11)), "wheel's game 7"),
    "wrong number": (
        lambda: seen(games=(replace(GAMES[0], pocket="18"), *GAMES[1:])),
        "fell into 18, round 1 says 17",
    ),
    "game in no record": (lambda: seen(without(9)), "game 5 (32) is in no record"),
    "record not received": (lambda: replace(seen(), received=chain(STORY)[:-1]), "1 not received"),
    "record too many": (lambda: replace(seen(), journal=chain(STORY)[:-1]), "13 received, 12 in the journal"),
    "record changed": (lambda: seen(damaged=1), "1 messages"),
    "nothing at all": (lambda: seen(received=(), journal=()), "no record"),
    "daemon failed": (lambda: seen(daemon_exit=1), "exit 1"),
    "journal not good": (lambda: seen(verified=""), "no"),
    "decisions differ": (lambda: seen(replayed=""), "no"),
    "other key": (
        lambda: seen(keys=msgspec.json.encode({"keys": [signer(2).jwk]})),
        "record 1",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_missing_is_said(name: str) -> None:
    broken, why = BREAKS[name]
    assert why in " / ".join(finding.missing for finding in judge(broken()))


def test_a_changed_signature_is_found_by_the_second_library() -> None:
    good = chain(STORY)
    envelope = msgspec.json.decode(good[3])
    envelope["signature"] = ("B" if envelope["signature"][0] == "A" else "A") + envelope["signature"][1:]
    changed = (*good[:3], msgspec.json.encode(envelope), *good[4:])
    findings = {
        finding.expected: finding.missing for finding in judge(seen(received=changed, journal=changed))
    }
    assert "record 4" in findings["a second library (joserfc) finds every signature right"]


def test_report_prints_every_promise_and_gives_the_exit_code() -> None:
    def told(told_by: Seen[Games]) -> tuple[int, str]:
        out = io.StringIO()
        return report(judge(told_by), Console(file=out, width=200)), out.getvalue()

    code, text = told(seen())
    assert code == EXIT_SEEN
    assert text.count("✓") == len(EXPECTATIONS)
    code, text = told(seen(verified=""))
    assert code == EXIT_MISSING
    assert (text.count("✓"), text.count("✗")) == (len(EXPECTATIONS) - 1, 1)
    assert f"1 of {len(EXPECTATIONS)} were not seen" in text


def test_every_record_of_the_story_has_plain_words() -> None:
    told = [words({"kind": str(kind), "round": number, "body": body}) for kind, number, body in STORY]
    assert all(told)
    assert words({"kind": "bets-closed", "round": 1, "body": {}}) is None


@pytest.mark.parametrize("size", [ConsoleDimensions(80, 24), ConsoleDimensions(200, 60)])
def test_picture_fits_the_terminal(size: ConsoleDimensions) -> None:
    out = io.StringIO()
    console = Console(file=out, width=size.width, height=size.height, force_terminal=True)
    display = LiveDisplay(View("Mosquitto"), console)
    for kind, number, body in STORY * 5:
        record = {"kind": str(kind), "round": number, "body": body}
        if line := words(record):
            display.tell(line)
        if kind in FINAL_KINDS:
            display.view.outcomes.append(record)
    display.act("1. Results", "A story. " * 20)
    display.close()
    lines = console.render_lines(picture(display.view, size))
    assert len(lines) < size.height
    text = "\n".join("".join(segment.text for segment in line) for line in lines)
    assert "odds table   1    1    -" in text
    assert "round 7:  32  red" in text
    assert "dollyd demo - 1. Results" in out.getvalue()


def test_plain_lines_have_no_markup() -> None:
    out = io.StringIO()
    display = PlainDisplay(View("Mosquitto"), Console(file=out, width=40))
    display.act("1. Results", "[red]a long story[/red] " * 5)
    (line,) = out.getvalue().splitlines()
    assert "[red]a long story[/red]" in line


def test_a_broker_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_kwargs: None)
    with pytest.raises(broker.NoBrokerError, match="apt-get install mosquitto"):
        broker.choose("mosquitto")
    assert broker.choose(None).protocol == "3.1.1"
