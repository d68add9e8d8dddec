"""The verifiers, each asked for many files at once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dollyd.client.proof.evidence import is_evidence, verify_evidence
from dollyd.client.proof.sources import envelopes_of_lines
from dollyd.client.proof.verify import verify_envelopes
from dollyd.wire.jws import Keys

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOSE = "jose@5"
_GOOD, _WRONG = "good: ", "WRONG: "
_OURS_ALONE = (
    "it does not say how the round ended: ",
    "two persons must stand behind it: its body is not that of a ",
    "two persons must stand behind it: the command of ",
    "its stake policy is ",
)
"""What the others may take: more of the form of a body, and texts of profiles."""
OURS = "WRONG (ours may be alone): "


class MissingError(Exception):
    """A verifier cannot be had here; the text says why."""


@dataclass(frozen=True)
class Foreign:
    """A verifier in another language: a command that takes keys and files, and prints a line a file."""

    name: str
    command: Sequence[str | Path]

    def verdicts(self, keys: Path, files: Sequence[Path]) -> list[str]:
        """What it says of each file. Raises `RuntimeError` where it does not say one verdict a file."""
        run = subprocess.run([*self.command, keys, *files], capture_output=True, text=True, check=False)
        said = [line.split(": ", 1)[1] for line in run.stdout.splitlines()]
        if len(said) != len(files) or not all(text.startswith((_GOOD, _WRONG)) for text in said):
            raise RuntimeError(f"{self.name} gave up: {run.stdout[-500:]}{run.stderr[-2000:]}")
        return said


def javascript(folder: Path) -> Foreign:
    """`verify.mjs` and its modules beside npm's `jose`, all in `folder`."""
    _need("node")
    _need("npm")
    for module in EXAMPLES.glob("*.mjs"):
        shutil.copy(module, folder)
    if not (folder / "node_modules" / "jose").is_dir():
        _run("npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--prefer-offline", JOSE)
    return Foreign("JavaScript", ["node", folder / "verify.mjs"])


def go(folder: Path) -> Foreign:
    """`verify.go` and its parts, built in `folder`."""
    _need("go")
    _run("go", "build", "-o", folder / "verify-go", *sorted(EXAMPLES.glob("*.go")))
    return Foreign("Go", [folder / "verify-go"])


def ours(keys: Keys, file: Path) -> str:
    """What `dollyd.client` says of a file, in the form of the others.

    What begins with `OURS` is refused for something that the others need not look at (`_OURS_ALONE`).
    """
    if is_evidence(file):
        report = verify_evidence(file, keys)
    else:
        with file.open("rb") as stream:
            report = verify_envelopes(envelopes_of_lines(stream), keys)
    for problem in report.problems:
        if not problem.why.startswith(_OURS_ALONE):
            return f"{_WRONG}record {problem.at}: {problem.why}"
    for problem in report.problems[:1]:
        return f"{OURS}record {problem.at}: {problem.why}"
    return f"{_GOOD}{report.records} records in {len(report.heads)} chains"


def is_good(verdict: str) -> bool:
    """Whether a verdict takes the file."""
    return verdict.startswith(_GOOD)


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise MissingError(f"{program} is not installed")


def _run(*command: str | Path) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise MissingError(f"{command[0]} failed: {run.stderr[-1000:]}")
