"""The chains of one table: each but the first takes up where the one before it ended.

A table has several chains where a key or a journal was lost. Who has the node's key can begin another one at
any time; not one that fits behind what others have of the table already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


def why_no_successor(previous: tuple[str, int], known: Sequence[tuple[str, int]]) -> str:
    """What is wrong with a new chain of a table, by what its first record says of the one before it.

    `previous`: that one and its last record, ("", 0) where it names none. `known`: the chains of the table
    that nothing follows, and how far each was read; empty where nothing of the table is known.
    """
    if not known:
        return ""
    chain, seq = previous
    read = dict(known)
    if chain not in read:
        return f"a new chain that does not name the one before it, {known[-1][0]}"
    if seq < read[chain]:
        told = f"takes up after record {seq} of {chain}, which was followed to record {read[chain]}"
        return f"a new chain that {told}"
    return ""


def why_behind_its_end(seq: int, ends: int) -> str:
    """What is wrong with a record of a chain that ends with record `ends`; 0: it is not known to end."""
    return f"the chain goes on after its end at record {ends}" if 0 < ends < seq else ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A chain that was read to its end."""

    table: str
    seq: int
    """Its last record."""
    begins: bool
    """Whether its first record was read, which alone says what came before."""
    previous: tuple[str, int] = ("", 0)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A chain that does not fit the others of its table."""

    chain: str
    why: str
    short: bool = False
    """The chain before it ends before it should: more of it may be still to come."""


def wrong_successors(chains: Mapping[str, Whole]) -> Iterable[Misfit]:
    """Chains that do not fit the others of their table, in the order in which they came."""
    followed: set[str] = set()
    first: dict[str, str] = {}
    for name, chain in chains.items():
        before, end = chain.previous
        if not chain.begins:
            continue
        if not before:
            if first.setdefault(chain.table, name) != name:
                yield Misfit(name, f"a new chain that does not name the one before it, {first[chain.table]}")
            continue
        told = f"goes on after record {end} of chain {before}, which"
        other = chains.get(before)
        if before in followed:
            yield Misfit(name, f"{told} another chain goes on after, too")
        followed.add(before)
        if other is None:
            continue
        if _comes_before_itself(name, chains):
            yield Misfit(name, f"{told} comes after it")
        elif other.table != chain.table:
            yield Misfit(name, f"{told} is one of table {other.table}")
        elif other.seq < end:
            yield Misfit(name, f"{told} ends here at record {other.seq}", short=True)
        elif other.seq > end:
            yield Misfit(name, f"{told} goes on here to record {other.seq}")


def _comes_before_itself(name: str, chains: Mapping[str, Whole]) -> bool:
    seen: set[str] = set()
    at = chains[name].previous[0]
    while at in chains and at != name and at not in seen:
        seen.add(at)
        at = chains[at].previous[0]
    return at == name
