"""The manual page dollyd(1), from the help of the commands: `python -m tools.man_page` prints it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer.main

import dollyd
from dollyd.daemon.cli import application

EXIT_STATUS = (
    ("0", "Done as asked."),
    (
        "1",
        "Something is wrong; for the daemon: a promise could not be kept. systemd restarts it.",
    ),
    ("2", "The command line is wrong."),
    ("3", "Consistent, but no key to trust was given (verify, show, settle)."),
    ("4", "Derived again, but for what a key proves that is in no evidence file (replay)."),
    (
        "78",
        "The configuration is wrong: one line with file, key, remedy. systemd does not try again.",
    ),
)
FILES = (
    ("/etc/dollyd/dollyd.toml", "The configuration that the service reads."),
    ("/etc/dollyd/credentials/signing.pem", "The node's private key."),
    ("/var/lib/dollyd/journal.db", "Every record of this node."),
    ("/usr/share/doc/dollyd/examples", "A configuration for every game."),
)


def man_page() -> str:
    """The page in the man(7) macros. The same program gives the same page."""
    root: Any = typer.main.get_command(application)
    lines = [
        f'.TH DOLLYD 1 "" "dollyd {dollyd.__version__}" "Gaming tables"',
        ".SH NAME",
        "dollyd \\- reads, signs, keeps and publishes the results of gaming tables",
        ".SH SYNOPSIS",
        ".B dollyd",
        ".I COMMAND",
        "[OPTIONS]",
        ".SH DESCRIPTION",
        *paragraphs(root.help),
        ".SH COMMANDS",
        *(line for name, command in commands("dollyd", root) for line in command_lines(name, command)),
        ".SH EXIT STATUS",
        *(line for code, text in EXIT_STATUS for line in item(code, text)),
        ".SH FILES",
        *(line for name, text in FILES for line in item(name, text)),
        ".SH SEE ALSO",
        ".BR dollyd.toml (5),",
        ".BR systemctl (1),",
        ".BR journalctl (1),",
        ".BR mosquitto (8)",
    ]
    return "\n".join(lines) + "\n"


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command with all its words: those that do something, and those with options for all below."""
    below = getattr(command, "commands", {})
    if command.params or not below:
        yield name, command
    for word, one in below.items():
        yield from commands(f"{name} {word}", one)


def command_lines(name: str, command: Any) -> Iterator[str]:
    """One command: how it is called, what it does, its options."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    yield f".SS {quoted(name)} " + quoted(" ".join(named(one) for one in arguments))
    yield from paragraphs(command.help or "")
    for one in arguments:
        if one.help:
            yield from item(named(one), one.help)
    for one in options:
        value = "" if one.is_flag else f" {named(one)}"
        yield from item(", ".join(one.opts) + value, one.help or "")


def named(parameter: Any) -> str:
    """What stands for the value of a parameter."""
    return str(parameter.metavar or parameter.name.upper())


def item(tag: str, text: str) -> list[str]:
    """A tagged paragraph."""
    return [".TP", f".B {escaped(tag)}", *text_lines(text)]


def paragraphs(text: str) -> Iterator[str]:
    """Running text; an empty line divides paragraphs."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield from text_lines(paragraph)


def text_lines(text: str) -> list[str]:
    """Text that troff takes as text."""
    return [escaped(" ".join(text.split()))] if text.strip() else []


def quoted(text: str) -> str:
    """One argument of a macro."""
    return '"' + escaped(text).replace('"', "\\(dq") + '"' if text else ""


def escaped(text: str) -> str:
    """No control lines, no escapes, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.stdout.write(man_page())
