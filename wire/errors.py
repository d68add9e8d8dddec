"""Errors, sorted by whose fault they are.

What an operator does wrong is a `ConfigError` (one clear line, exit 78). What a device does wrong is a
`TransportError` or a value (`BadFrame`), never the end of the process. What we did wrong is an
`InvariantError`: the process stops, and systemd restarts it into recovery.
"""

from __future__ import annotations

EXIT_CONFIG = 78
"""`EX_CONFIG` of sysexits.h; the unit's RestartPreventExitStatus names it."""


class DollydError(Exception):
    """Base of every error that dollyd raises on purpose."""


class ConfigError(DollydError):
    """The operator must change something. Names the file, the key and the remedy in one line.

    `others`: what else is wrong with the same configuration.
    """

    def __init__(
        self, file: str, key: str, problem: str, remedy: str, others: tuple[ConfigError, ...] = ()
    ) -> None:
        super().__init__(f"{file}: {key}: {problem}; {remedy}" if key else f"{file}: {problem}; {remedy}")
        self.file = file
        self.key = key
        self.problem = problem
        self.remedy = remedy
        self.others = others

    @property
    def all(self) -> tuple[ConfigError, ...]:
        """Itself and the others: a line each."""
        return self, *self.others


class TransportError(DollydError):
    """A port or USB device failed. Expected: the session reconnects, the round is judged by the rules."""


class JournalError(DollydError):
    """The journal cannot promise durability. Publishing stops and the unit fails."""


class SigningError(DollydError):
    """A key cannot be read or cannot sign."""


class InvariantError(DollydError):
    """A promise inside was broken: our bug."""


def ensure(condition: bool, promise: str) -> None:
    """Raise `InvariantError` naming the broken promise; unlike `assert`, `-O` does not strip it."""
    if not condition:
        raise InvariantError(promise)
