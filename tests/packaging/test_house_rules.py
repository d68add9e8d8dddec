"""Rules of the source tree that no tool checks otherwise."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from dollyd.daemon.cli import application
from dollyd.daemon.core.events import Reading, Spoken
from dollyd.drivers.framing import Frame
from dollyd.drivers.spec import DeviceProtocol, DeviceSetup
from dollyd.wire.stamp import Stamp

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = ("wire", "daemon", "drivers", "client")
SOURCES = sorted(
    path
    for folder in (*PRODUCTION, "simulators", "tools", "tests", "examples", "src")
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70


def place(path: Path, line: int = 0) -> str:
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def trees(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] in folders:
            yield path, parsed(path)


def production_texts() -> Iterator[tuple[Path, ast.Constant]]:
    """Text in production code that is no docstring."""
    for path, tree in trees(*PRODUCTION):
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                yield path, node


# --- source --------------------------------------------------------------------------------------


def test_there_is_something_to_check() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in SOURCES}
    assert {*PRODUCTION, "simulators", "tests"} <= folders
    assert len(SOURCES) > 50


def test_no_module_is_long() -> None:
    lengths = {place(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES_MAX} == {}


def test_no_function_is_long() -> None:
    long = [
        f"{place(path, node.lineno)} {node.name}"
        for path, tree in trees(*{path.relative_to(ROOT).parts[0] for path in SOURCES})
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_nothing_is_left_to_be_done() -> None:
    mark = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")  # in pieces: this file is checked too
    left = [
        place(path, number)
        for path in SOURCES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if mark.search(line)
    ]
    assert left == []


def test_production_code_has_no_bare_assert() -> None:
    """`python -O` strips them: promises are kept by `ensure`."""
    asserts = [
        place(path, node.lineno)
        for path, tree in trees(*PRODUCTION, "simulators", "tools", "examples")
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    assert asserts == []


CLOCKS = {"monotonic", "perf_counter", "time"}
BOUND_MIN_S = 2.0


def too_short(node: ast.AST) -> bool:
    """Whether a test fails by it on a machine that is busy for two seconds."""
    match node:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[ast.Constant(value=bound)]):
            clocks = {getattr(call.func, "attr", "") for call in ast.walk(left) if isinstance(call, ast.Call)}
        case ast.Call(func=ast.Attribute(attr="wait_for"), args=[_, ast.Constant(value=bound)]):
            clocks = CLOCKS
        case _:
            return False
    return bool(clocks & CLOCKS) and isinstance(bound, float | int) and bound < BOUND_MIN_S


def test_no_test_fails_by_a_short_time_on_the_wall() -> None:
    assert too_short(ast.parse("time.monotonic() - began_s < 0.5").body[0].value)  # type: ignore[attr-defined]  # an expression
    assert not too_short(ast.parse("time.monotonic() - began_s < 5").body[0].value)  # type: ignore[attr-defined]  # as above
    short = [
        place(path, node.lineno)
        for path, tree in trees("tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and too_short(node)
    ]
    assert short == []


def test_topics_are_built_in_one_module() -> None:
    topic = re.compile(r"(?<!/dev/)\bdolly/|^dolly$|/record/|/ack/|/replay/")
    others = [
        place(path, node.lineno)
        for path, node in production_texts()
        if topic.search(str(node.value)) and place(path) != "wire/topics.py"
    ]
    assert others == []


def test_one_module_imports_the_mqtt_library() -> None:
    importers = set()
    for path, tree in trees(*PRODUCTION):
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in {"aiomqtt", "paho"} for name in names):
                importers.add(place(path))
    assert importers == {"daemon/link/mqtt.py", "daemon/link/mqtt_client.py"}


# --- documents -----------------------------------------------------------------------------------


def in_code(text: str) -> Iterator[str]:
    """Code of a Markdown text: lines of shell blocks, and spans."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language in {"sh", "console"}:
            yield from block.splitlines()
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", outside)


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Calls of a program in the documents, as document and arguments."""
    for document in DOCUMENTS:
        for code in in_code(document.read_text("utf-8")):
            for call in re.split(r"[|;&]+", code.split(" #")[0]):
                words = shlex.split(call.replace("'", ""))
                if words and Path(words[0]).name == program:
                    yield document.name, words[1:]


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for _, words in commands("make") for word in words if "=" not in word}
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_dollyd_commands_that_are_named_exist() -> None:
    calls = [(document, words) for document, words in commands("dollyd") if words and words[0][0] != "-"]
    assert {"run", "check", "keys", "verify", "replay"} <= {words[0] for _, words in calls}
    whole: Any = get_command(application)
    for document, words in calls:
        command = whole
        options = {"--help"} | ({"--all"} if words[0] == "demo" else set())  # passed on to the simulators
        for depth, word in enumerate(words):
            inner = getattr(command, "commands", {}).get(word)
            assert inner or depth, f"{document}: there is no command dollyd {word}"
            command = inner or command
            options |= {option for parameter in command.params for option in parameter.opts}
        for option in (word.split("=")[0] for word in words if word.startswith("--")):
            assert option in options, f"{document}: dollyd {words[0]} has no {option}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_links_that_are_named_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    folders = {entry.name for entry in ROOT.iterdir() if entry.is_dir()}
    for code in in_code(text):
        for word in code.split():
            name = word.strip("'\".,:;()")
            if "/" in name and name.split("/")[0] in folders and not re.search(r"[<>*{}$]", name):
                assert (ROOT / name.split("::")[0]).exists(), f"{document.name} names {name}"
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            linked = (document.parent / file) if file else document
            assert linked.exists(), f"{document.name} links {target}"
            if anchor:
                assert anchor in anchors(linked), f"{document.name} links {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_are_named_exist(document: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", document.read_text("utf-8")))
    assert named - names_of_tests() == set()


@cache
def names_of_tests() -> frozenset[str]:
    texts = (path.read_text("utf-8") for path in SOURCES if path.relative_to(ROOT).parts[0] == "tests")
    return frozenset(
        name for text in texts for name in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
    )


def anchors(document: Path) -> set[str]:
    """The names under which headings can be linked, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_guarantees_name_a_test_each() -> None:
    """Each invariant of `docs/guarantees.md` names tests that try to break it."""
    parts = re.split(r"^### ", (ROOT / "docs" / "guarantees.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    invariants = [part for part in parts if re.match(r"\d\.", part)]
    assert len(invariants) == 9
    for invariant in invariants:
        assert re.search(r"`test_\w+`", invariant.split("\n## ")[0]), invariant.splitlines()[0]


def test_the_driver_of_the_walk_through_is_a_driver() -> None:
    text = (ROOT / "docs" / "adding-a-driver.md").read_text("utf-8")
    (code,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if "class " in block
    )
    module = ModuleType("ball_detector")
    sys.modules[module.__name__] = module  # where dataclasses and msgspec look for its names
    try:
        exec(compile(code, module.__name__, "exec"), module.__dict__)
        heard = hear(
            module.BallProtocol, ["B;REST;7", "B;LAUNCH", "B;LAU", "B;REST;99", "B;REST;23", "B;REST;24"]
        )
    finally:
        del sys.modules[module.__name__]
    assert [event.value for event in heard if isinstance(event, Reading)] == [("23",)]


def hear(protocol: Callable[[DeviceSetup], DeviceProtocol], lines: list[str]) -> list[Spoken]:
    """What a protocol says of lines, taken apart and put together through JSON between any two."""
    setup = DeviceSetup("ball", "ball", tuple(str(number) for number in range(37)))
    ear, events = protocol(setup), list[Spoken]()
    ear.opened(Stamp(1, 1))
    for number, line in enumerate(lines, 2):
        following = protocol(setup)
        following.restore(msgspec.json.decode(msgspec.json.encode(ear.snapshot())))
        ear = following
        events += ear.received(Frame(line.encode()), Stamp(number, number)).events
    return events
