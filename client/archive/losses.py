"""Records that people give up for lost: their chain goes on behind them, and it stays written that it did."""

from __future__ import annotations

from dataclasses import dataclass

from dollyd.client.archive.store import Store
from dollyd.daemon.host.logger import Logger

_LOG = Logger(__name__)


class NoLossError(ValueError):
    """There is no such hole in the chain; the text says what there is."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records `first` to `last` of a chain, all of which were missing."""

    table: str
    chain: str
    first: int
    last: int


def accept_loss(store: Store, chain: str, upto: int) -> Loss:
    """Go on behind the first hole of a chain, for good; `upto`: its last record, or an earlier one of it.

    The record behind it is taken at its word for what came before, as by `Stream.accept_loss`. Only people
    know that nobody has the records any more. Raises `NoLossError`, and nothing is changed, where one of them
    is there, or is known of by nobody; and `StoreError`.
    """
    with store.transaction():
        known = store.query(
            "SELECT table_name, begins, complete_to, heard, broken,"
            " (SELECT min(seq) FROM links l WHERE l.chain = c.chain AND l.seq > c.complete_to)"
            " FROM chains c WHERE chain = ?",
            chain,
        )
        if not known:
            raise NoLossError(f"no chain {chain!r} is archived")
        table, begins, complete_to, heard, broken, behind = known[0]
        first, last = complete_to + 1, heard if behind is None else behind - 1
        if broken:
            raise NoLossError(f"the chain does not stop for a hole: {broken}")
        if last < first:
            raise NoLossError(f"nothing is missing behind record {complete_to}")
        if not first <= upto <= last:
            raise NoLossError(f"missing are records {first} to {last}")
        store.query(
            "UPDATE chains SET complete_to = ?, begins = ?, digest = '' WHERE chain = ? AND complete_to = ?",
            *(upto, upto + 1 if begins > complete_to else begins, chain, complete_to),
        )
        store.query("INSERT INTO losses (chain, first_seq, last_seq) VALUES (?, ?, ?)", *(chain, first, upto))
    _LOG.warning("loss_accepted", table=table, chain=chain, first=first, last=upto)
    return Loss(table, chain, first, upto)
