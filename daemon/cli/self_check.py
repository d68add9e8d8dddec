"""`dollyd self-check`: whether the installed files are those of the build."""

from __future__ import annotations

import typer

from dollyd.daemon.host.self_check import BAD, UNSEALED, check_files
from dollyd.daemon.host.terminal import say

EXIT_BAD = 1


def self_check() -> None:
    """Compare the installed files with the manifest of the build; exit 1 where one differs.

    A running daemon does so at its start and once a day, and keeps the answer as a record. Asked by
    `systemctl kill --signal=USR1 dollyd` it does so at once. Where a file differs it lets no round begin.
    """
    answer = check_files("asked")
    for one in answer.differs:
        say(one)
    if answer.differing > len(answer.differs):
        say(f"... {answer.differing - len(answer.differs)} more")
    if answer.result == UNSEALED:
        say(f"unsealed: dollyd {answer.version} has no manifest; it was not installed from a sealed build")
        return
    say(f"{answer.result}: dollyd {answer.version}, {answer.files} files, manifest {answer.manifest}")
    if answer.result == BAD:
        raise typer.Exit(EXIT_BAD)
