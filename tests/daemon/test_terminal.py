"""What comes from outside cannot steer a terminal (one way out: `dollyd.daemon.host.terminal`)."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import CapturingLogger
from tests.support.commands import CHAIN, DEALER, order

import dollyd.daemon
from dollyd.client.proof.verify import Head, Problem, Report
from dollyd.daemon.cli import table as table_command
from dollyd.daemon.cli import verify as verify_command
from dollyd.daemon.cli.doctor import in_two_lines
from dollyd.daemon.commands.line import NoAnswerError, Shown
from dollyd.daemon.discovery.report import Found, lines
from dollyd.daemon.discovery.sysfs import UsbDevice
from dollyd.daemon.doctor.case import Finding, Severity
from dollyd.daemon.host.log import processors
from dollyd.daemon.host.terminal import say, say_json, shown
from dollyd.daemon.table.state_topics import Pending
from dollyd.wire.command import digest

HOSTILE = "\x1b[2J\x1b[1;1Hgood\x1b[8m\r\n\x9b2J\u202egood\u2066\x00\x7f\u200b\ud800"


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@given(st.text(st.characters(exclude_categories=())))
def test_attack_7_whatever_is_shown_is_one_printable_line(text: str) -> None:
    assert shown(text).isprintable()
    assert text.isprintable() == (shown(text) == text)


def test_attack_7_letters_of_all_languages_stay_as_they_are() -> None:
    assert shown("Väinö, Zoë, Ольга, 山田") == "Väinö, Zoë, Ольга, 山田"
    assert shown("a\x1b[2J\n") == "a\\x1b[2J\\n"


def test_attack_7_what_is_said_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE, "second")
    assert harmless(out := capsys.readouterr().out)
    assert out.count("\n") == 2


def test_attack_7_json_of_foreign_text_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = HOSTILE.replace("\ud800", "")
    say_json({"reason": hostile})
    out = capsys.readouterr().out
    assert out.isascii()
    assert harmless(out)
    assert json.loads(out) == {"reason": hostile}


def test_attack_7_a_report_of_a_strangers_file_cannot_draw_another_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report(records=1)
    report.heads[HOSTILE] = Head(HOSTILE, 1, "00", 0)
    report.keys[HOSTILE] = HOSTILE
    report.notes.append(HOSTILE)
    report.problems.append(Problem(1, HOSTILE, HOSTILE, 1, HOSTILE))
    verify_command._print(Path("evening.jsonl"), report, None)
    out = capsys.readouterr().out
    assert harmless(out)
    assert "\ngood\n" not in out


def test_attack_7_what_a_device_topic_or_a_plug_says_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    plug = UsbDevice("1-1", "dead", "beef", HOSTILE, HOSTILE, HOSTILE, "on", "189:3", "")
    say(*lines(Found((), (plug,), ())))
    say(*in_two_lines(Finding("device-silent", Severity.FAULT, HOSTILE, HOSTILE)))
    assert harmless(capsys.readouterr().out)


@pytest.mark.parametrize("with_time", [True, False])
def test_attack_7_a_line_of_the_log_is_one_printable_line(with_time: bool) -> None:
    lines = CapturingLogger()
    log = structlog.wrap_logger(lines, processors=processors(with_time=with_time))
    log.warning("device_unreachable", cause=HOSTILE)
    ((line,),) = (call.args for call in lines.calls)
    assert line.isprintable()
    assert "event=device_unreachable" in line


# --- the second person reads what the first one signed -----------------------------------------


def state(command: str, proposal: str, **pending: object) -> Shown:
    waits = {"by": "i1", "role": "inspector", "round": 1, "value": ["32"], "reason": "32"} | pending
    shown_one = Pending(digest=proposal, command=command, **waits)  # type: ignore[arg-type]
    return Shown("r1", "roulette", "A", "no-more-bets", 1, CHAIN, shown_one)


def entered(value: str = "17") -> str:
    return DEALER.sign(order("enter", chain=CHAIN, round=1, value=[value], reason="sensor dead")).decode()


def test_attack_7_an_approval_is_of_the_signed_proposal_and_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = entered()
    lies = {"value": ["32"], "reason": f"32{HOSTILE}", "by": f"i1{HOSTILE}"}
    members = table_command._pending(state(command, digest(command.encode()), **lies), "")
    out = capsys.readouterr().out
    assert harmless(out)
    assert "outcome:   17" in out
    assert "32" not in out.replace("\\x1b", "").partition("sign")[2].replace(digest(command.encode()), "")
    assert (members["value"], members["round"]) == (["17"], 1)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "no signed command"),
        ("{}", "no signed command"),
        (entered("32"), "not the one whose digest"),
    ],
    ids=["none", "no-envelope", "another"],
)
def test_attack_7_a_proposal_without_its_signed_command_is_not_approved(command: str, why: str) -> None:
    with pytest.raises(NoAnswerError, match=why):
        table_command._pending(state(command, digest(entered().encode())), "")


def test_attack_7_a_proposal_of_another_table_or_another_order_is_not_approved() -> None:
    closing = DEALER.sign(order("close", chain=CHAIN)).decode()
    elsewhere = DEALER.sign(
        order("enter", chain=CHAIN, round=1, value=["17"], reason="sensor dead", table="r2")
    ).decode()
    for command in (closing, elsewhere):
        with pytest.raises(NoAnswerError, match="none of this table"):
            table_command._pending(state(command, digest(command.encode())), "")


# --- the house rule ------------------------------------------------------------------------------


def test_attack_7_commands_print_in_one_way_only() -> None:
    """`print`, a console of rich, or a stream that is written to, is in one module only."""
    root = Path(dollyd.daemon.__file__).resolve().parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _writes(node.func):
                found.add(path.relative_to(root).as_posix())
    assert found == {"host/terminal.py"}


def _writes(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "print"
    if not isinstance(called, ast.Attribute):
        return False
    return ast.unparse(called) in {"sys.stdout.write", "sys.stderr.write", "typer.echo", "typer.secho"}
