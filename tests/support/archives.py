"""Archives of both kinds, empty and of our own; and whether one holds what was counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.chains import SITE, keys, signer
from tests.support.evenings import House

from dollyd.client.archive.intake import Heard, Intake
from dollyd.client.archive.store import Store
from dollyd.daemon.keys.signing import Signer

OpenStore = Callable[[], Store]
"""One more connection to the data base of a test."""


def intake_of(store: Store, *signers: Signer) -> Intake:
    return Intake(SITE, keys(*(signers or (signer(),))), store.announced)


def bring(store: Store, envelopes: Iterable[bytes], *signers: Signer) -> int:
    """Archive envelopes as one batch; gives how many were new."""
    intake = intake_of(store, *signers)
    entries = intake.take(Heard(envelope) for envelope in envelopes)
    return store.insert(entries, intake.suspects)


def count(store: Store, table: str) -> int:
    number: int = store.query(f"SELECT count(*) FROM {table}")[0][0]
    return number


def holds(store: Store, house: House) -> dict[str, bool]:
    """What the views say, against the count of the house."""
    voids = store.query("SELECT table_name, gaming_date, rule, role, voids, ended, rate_ppm FROM void_rates")
    results = store.query("SELECT table_name, gaming_date, outcome, times FROM results_by_gaming_date")
    rates = store.query("SELECT table_name, gaming_date, manual, ended, rate_ppm FROM manual_rates")
    ordered: dict[str, list[str]] = {}
    for table, outcome in store.query(
        "SELECT table_name, outcome FROM ordered_results ORDER BY table_name, place"
    ):
        ordered.setdefault(table, []).append(plain(outcome)["pocket"])
    return {
        "every record once": count(store, "records") == count(store, "links") == len(house.envelopes),
        "every envelope": {bytes(row[0]) for row in store.query("SELECT envelope FROM records")}
        == set(house.envelopes),
        "whole": store.gaps() == []
        and {chain.complete_to for chain in store.chains()} == {maker.seq for maker in house.chains.values()},
        "voids": {(t, str(d), rule, role): n for t, d, rule, role, n, _, _ in voids} == dict(house.voids),
        "void rates": all(
            ended == house.ended[t, str(d)] and ppm == n * 1_000_000 // ended
            for t, d, _, _, n, ended, ppm in voids
        ),
        "results": {(t, str(d), plain(o)["pocket"]): n for t, d, o, n in results} == dict(house.results),
        "manual": {(t, str(d)): n for t, d, n, _, _ in rates} == dict(house.manual),
        "order": ordered == house.ordered,
        "evenings": count(store, "evenings") == house.evenings,
        "incidents": count(store, "incidents") == house.incidents,
    }


def plain(outcome: Any) -> dict[str, Any]:
    """JSON as a data base gives it: text, or read already."""
    read: dict[str, Any] = json.loads(outcome) if isinstance(outcome, str) else outcome
    return read
