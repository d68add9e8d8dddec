"""Rulebooks for settlement: the file whose digest is in the record, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dollyd.client.settlement.spec import SettlementError
from dollyd.daemon.core.rulebook import Rulebook, RuleTextError, parse_rulebook


@dataclass(frozen=True, slots=True)
class LoadedRulebook:
    """A rulebook and what names it: `id` and the SHA-256 of its exact bytes, hex."""

    id: str
    digest: str
    book: Rulebook


def load_rulebook(source: str | Path | bytes) -> LoadedRulebook:
    """A rulebook: a shipped one by name, a path that ends in `.toml`, or the bytes of a file.

    Raises `SettlementError` where there is none, or it is not what a rulebook must be.
    """
    try:
        data = source if isinstance(source, bytes) else _read(str(source))
        book, named = parse_rulebook(data)
    except OSError as error:
        names = ", ".join(shipped_rulebooks())
        raise SettlementError(
            f"rulebook {source!s} cannot be read ({error.strerror}); shipped are {names}"
        ) from error
    except RuleTextError as error:
        raise SettlementError(f"rulebook: {error}") from error
    return LoadedRulebook(named.id, named.digest, book)


def rulebook_of_digest(digest: str) -> LoadedRulebook:
    """The shipped rulebook with a digest, as a record names it. Raises `SettlementError` for any other."""
    for name in shipped_rulebooks():
        rulebook = load_rulebook(name)
        if rulebook.digest == digest:
            return rulebook
    raise SettlementError(f"no shipped rulebook has the digest {digest}; give the file that the table used")


def shipped_rulebooks() -> list[str]:
    """Names of the rulebooks that come with the package."""
    entries = files("dollyd").joinpath("config", "rulebooks").iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml"))


def _read(name: str) -> bytes:
    if name.endswith(".toml"):
        return Path(name).read_bytes()
    return files("dollyd").joinpath("config", "rulebooks", f"{name}.toml").read_bytes()
