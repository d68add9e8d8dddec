"""What the data base must do, and all of it that is the same in PostgreSQL and SQLite.

`links` holds chain, number and digest of every record, and decides what is new: of two instances that archive
the same record at once, one finds its link taken. Everything that a batch writes is one transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

from dollyd.client.archive.following import Link, follow
from dollyd.client.archive.intake import Entry
from dollyd.client.archive.rows import TABLES, Value
from dollyd.client.proof.chain_rules import NOT_TWO_PERSONS, previous_in
from dollyd.client.stream.replay import REPLAY_MAX
from dollyd.client.stream.watermark import Watermark
from dollyd.daemon.host.logger import Logger
from dollyd.wire.errors import DollydError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import NO_PREVIOUS
from dollyd.wire.successors import Whole, wrong_successors
from dollyd.wire.trust import Trust

LINKS_A_STEP = 5000
"""Records of a chain looked at in one transaction, when it is checked for being whole."""
NEAR = 250
"""Records that are better sent in vain than asked around: a node sends 500 a second, an answer takes one."""

_LOG = Logger(__name__)


class StoreError(DollydError):
    """The data base is not there, or lost the connection: expected, to be tried again after a pause."""


class SchemaError(DollydError):
    """The data base's schema is none that this program can use; the text says why."""


@dataclass(frozen=True, slots=True)
class Chain:
    """How far a chain is archived without a hole, from `begins` to `complete_to`."""

    site: str
    table: str
    chain: str
    begins: int
    complete_to: int
    tip: int
    """The highest record that is known to exist."""
    broken: str
    """Why it cannot go on: a record contradicts another one or breaks a rule, or the chain does not fit those
    of its table. Empty for a good one."""
    lost: int = 0
    """Records up to `complete_to` that people have given up for lost."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records `first` to `last` of a chain: some of them, the first among them, are not archived.

    `certain`: a later one is; else only somebody whose key is not known spoke of more.
    """

    table: str
    chain: str
    first: int
    last: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """SHA-256 of its text, hex."""
        return sha256(self.sql.encode()).hexdigest()


def migrations(dialect: str) -> list[Migration]:
    """The steps of a dialect in their order: `NNNN_name.sql`, or `NNNN_name.<dialect>.sql`."""
    steps = []
    for file in files(__package__).joinpath("schema").iterdir():
        stem, *dialects = file.name.removesuffix(".sql").split(".")
        if file.name.endswith(".sql") and dialects in ([], [dialect]):
            number, name = stem.split("_", 1)
            steps.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(steps, key=lambda step: step.version)


class Store(ABC):
    """One connection, for one thread at a time. Every method may raise `StoreError`.

    SQL is written with `?` for values; all of it here is understood by both data bases.
    """

    dialect: str
    _judged_by = 0
    """Version of the trust file by which chains were looked at last."""

    # --- what each data base does in its own way --------------------------------------------------

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """A transaction that may write, ended by the block: all of it is durable then, or nothing."""

    @abstractmethod
    def query(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """Run a statement; gives its rows."""

    @abstractmethod
    def hold(self) -> bool:
        """Whether this connection is the one, of all that are open, that looks after gaps."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @abstractmethod
    def _many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        """Run a statement with each of the values."""

    @abstractmethod
    def _link(self, entries: Sequence[Entry]) -> set[tuple[str, int]]:
        """Insert links of entries, each with another place; gives the places that were free."""

    @abstractmethod
    def _script(self, sql: str) -> None:
        """Run the statements of a migration inside the transaction that is open."""

    @abstractmethod
    def _lock_schema(self) -> None:
        """Wait, inside the transaction that is open, until nobody else changes the schema."""

    @abstractmethod
    def prepare(self, entries: Sequence[Entry]) -> None:
        """Make room for entries, where the data base needs that, before the transaction that brings them."""

    # --- schema -----------------------------------------------------------------------------------

    def migrate(self, upto: int | None = None) -> list[str]:
        """Bring the schema to the newest version, or to `upto`; gives the steps taken.

        One transaction a step, and one instance at a time. Raises `SchemaError` where the data base is newer
        than this program, or was made by other steps.
        """
        steps = migrations(self.dialect)
        taken = []
        for step in steps if upto is None else [step for step in steps if step.version <= upto]:
            with self.transaction():
                self._lock_schema()
                if step.version not in self._check_schema(steps):
                    self._script(step.sql)
                    self.query(
                        "INSERT INTO schema_steps (version, name, digest) VALUES (?, ?, ?)",
                        step.version,
                        step.name,
                        step.digest,
                    )
                    taken.append(f"{step.version:04} {step.name}")
        return taken

    def _check_schema(self, steps: Sequence[Migration]) -> set[int]:
        """The steps that were taken already."""
        self.query(
            "CREATE TABLE IF NOT EXISTS schema_steps (version integer PRIMARY KEY, name text NOT NULL,"
            " digest text NOT NULL, taken_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        )
        known = {step.version: step for step in steps}
        done = self.query("SELECT version, name, digest FROM schema_steps")
        for version, name, digest in done:
            if version not in known:
                raise SchemaError(f"schema version {version} ({name}) is newer than this program")
            if known[version].digest != digest:
                raise SchemaError(f"schema version {version} ({name}) was made by another text")
        return {version for version, _, _ in done}

    # --- records ----------------------------------------------------------------------------------

    def insert(self, entries: Sequence[Entry], suspects: Mapping[str, int]) -> int:
        """Archive entries that are not there yet, in one transaction; gives how many there were.

        A different record under a number that is taken is kept as a contradiction. `suspects`: records of
        chains that were spoken of and not believed.
        """
        unique, others = _by_place(entries)
        self.prepare(unique)
        with self.transaction():
            chains = {entry.chain: (entry.site, entry.table) for entry in unique}
            self._many(
                "INSERT INTO chains (chain, site, table_name, digest) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                [(chain, *place, NO_PREVIOUS) for chain, place in sorted(chains.items())],
            )
            new = self._link(unique)
            self._insert_rows([entry for entry in unique if (entry.chain, entry.seq) in new])
            self._check_taken([*others, *(entry for entry in unique if (entry.chain, entry.seq) not in new)])
            for chain, seq in sorted(suspects.items()):
                self.query("UPDATE chains SET heard = ? WHERE chain = ? AND heard < ?", seq, chain, seq)
        return len(new)

    def _insert_rows(self, entries: Sequence[Entry]) -> None:
        rows = [row for entry in entries for row in entry.rows]
        for table in TABLES:
            values = [row.columns for row in rows if row.table == table]
            if values:
                names = list(values[0])
                self._many(
                    f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",  # noqa: S608  names of ours
                    [[columns[name] for name in names] for columns in values],
                )

    def _check_taken(self, entries: Sequence[Entry]) -> None:
        """Most are the same record again. Another one is evidence."""
        for entry in entries:
            kept = self.query("SELECT digest FROM links WHERE chain = ? AND seq = ?", entry.chain, entry.seq)
            if kept[0][0] != entry.digest:
                _LOG.error("history_contradicted", table=entry.table, chain=entry.chain, seq=entry.seq)
                self.query(
                    "INSERT INTO contradictions (chain, seq, digest, envelope) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT DO NOTHING",
                    entry.chain,
                    entry.seq,
                    entry.digest,
                    entry.envelope,
                )

    def announced(self, chain: str) -> list[tuple[str, str]]:
        """Public keys (`x` of the JWK) that entered the chain by rotation, and the `kid` that announced each.

        That is empty where the record is not there any more: partitions of old months may be detached.
        """
        rows = self.query(
            "SELECT k.x, r.envelope FROM chain_keys k"
            " LEFT JOIN records r ON r.chain = k.chain AND r.seq = k.seq"
            " WHERE k.chain = ? AND k.seq > 1 ORDER BY k.seq",
            chain,
        )
        return [(x, parse_envelope(bytes(envelope)).kid if envelope else "") for x, envelope in rows]

    # --- chains -----------------------------------------------------------------------------------

    def begin(self, chain: str, seq: int, prev: str) -> None:
        """Take a chain as whole from record `seq` on: nobody keeps what came before.

        Changes nothing where the archive has its beginning, or was told so before.
        """
        with self.transaction():
            self.query(
                "UPDATE chains SET begins = ?, complete_to = ?, digest = ?"
                " WHERE chain = ? AND complete_to = 0"
                " AND NOT EXISTS (SELECT 1 FROM links l WHERE l.chain = chains.chain AND l.seq < ?)",
                *(seq, seq - 1, prev, chain, seq),
            )

    def advance(self, trust: Trust | None = None) -> None:
        """Follow every chain from where it is known to be whole, as far as its records keep the rules.

        `trust` knows the persons behind decisions by hand, None where keys are pinned. What another version
        of it did not know is looked at again.
        """
        again = trust is not None and trust.version != self._judged_by
        self._judged_by = trust.version if trust is not None else 0
        advanced = self.query(
            "SELECT chain, table_name, complete_to, digest, keys, kid, rules FROM chains c"
            " WHERE (broken = '' OR broken LIKE ?) AND EXISTS"
            " (SELECT 1 FROM links n WHERE n.chain = c.chain AND n.seq = c.complete_to + 1) ORDER BY chain",
            f"{NOT_TWO_PERSONS}%" if again else "",
        )
        ends = self._ends() if advanced else {}
        for chain, table, seq, digest, keys, kid, rules in advanced:
            mark = Watermark(table, chain, seq, digest, tuple(keys.split()), kid, rules)
            self._advance(mark, trust, ends.get(chain, 0))
        if advanced:
            self._check_successors({chain for chain, _, seq, *_ in advanced if not seq})

    def _ends(self) -> dict[str, int]:
        """Where chains end, as those after them say."""
        states = self.query("SELECT rules FROM chains WHERE complete_to > 0 AND rules <> ''")
        return dict(previous_in(rules) for (rules,) in states)

    def _advance(self, mark: Watermark, trust: Trust | None, ends: int) -> None:
        for links in self._links_after(mark.chain, mark.seq):
            reached, why = follow(mark, links, trust, ends)
            with self.transaction():
                self.query(
                    "UPDATE chains SET complete_to = ?, digest = ?, keys = ?, kid = ?, rules = ?, broken = ?"
                    " WHERE chain = ? AND complete_to = ?",
                    *(reached.seq, reached.digest, " ".join(reached.keys), reached.kid, reached.rules, why),
                    *(mark.chain, mark.seq),
                )
            if why:
                self._tell(reached.table, reached.chain, reached.seq + 1, why)
            if reached.seq < links[-1].seq:
                return
            mark = reached

    def _links_after(self, chain: str, seq: int) -> Iterator[list[Link]]:
        """Records after `seq`, in parts, up to the end."""
        while links := self.query(
            "SELECT l.seq, l.prev, l.digest, r.envelope FROM links l"
            " LEFT JOIN records r ON r.chain = l.chain AND r.seq = l.seq"
            " WHERE l.chain = ? AND l.seq > ? ORDER BY l.seq LIMIT ?",
            *(chain, seq, LINKS_A_STEP),
        ):
            yield [
                Link(number, prev, digest, bytes(envelope or b"")) for number, prev, digest, envelope in links
            ]
            seq = links[-1][0]

    def _check_successors(self, new: AbstractSet[str]) -> None:
        """Compare where chains end with what the first records of others say of that.

        Of two that contradict each other the one that came later is refused, whatever it says of its time.
        """
        rows = self.query(
            "SELECT chain, site, table_name, begins, complete_to, rules, accepted FROM chains ORDER BY"
            " (SELECT utc FROM links l WHERE l.chain = chains.chain AND l.seq = chains.complete_to), chain"
        )
        rows.sort(key=lambda row: row[0] in new or row[-1])
        chains = {
            chain: Whole(f"{site}/{table}", complete_to, begins <= 1 <= complete_to, previous_in(rules))
            for chain, site, table, begins, complete_to, rules, _ in rows
        }
        accepted = {chain for chain, *_, taken in rows if taken}
        for misfit in wrong_successors(chains):
            before, end = chains[misfit.chain].previous
            if misfit.chain in accepted:
                continue
            if misfit.short:  # its end may be still to come
                with self.transaction():
                    self.query("UPDATE chains SET heard = ? WHERE chain = ? AND heard < ?", end, before, end)
                continue
            self._tell(chains[misfit.chain].table, misfit.chain, 1, misfit.why)
            with self.transaction():
                self.query(  # nothing of it counts as whole
                    "UPDATE chains SET broken = ?, misfits = 1, complete_to = 0, digest = ?, keys = '',"
                    " kid = '', rules = '' WHERE chain = ? AND broken = ''",
                    *(misfit.why, NO_PREVIOUS, misfit.chain),
                )

    def accept(self, chain: str) -> bool:
        """Take a chain that does not fit those of its table; tells whether it was refused for that."""
        with self.transaction():
            refused = self.query("SELECT 1 FROM chains WHERE chain = ? AND misfits = 1", chain)
            self.query(
                "UPDATE chains SET broken = '', misfits = 0, accepted = 1 WHERE chain = ? AND misfits = 1",
                chain,
            )
        return bool(refused)

    @staticmethod
    def _tell(table: str, chain: str, seq: int, why: str) -> None:
        _LOG.error("history_inconsistent", table=table, chain=chain, seq=seq, why=why)

    def chains(self) -> list[Chain]:
        """Every chain; of two of a table the one that goes on comes last."""
        rows = self.query(
            "SELECT site, table_name, chain, begins, complete_to,"
            " coalesce((SELECT max(seq) FROM links l WHERE l.chain = c.chain), 0), broken,"
            " CAST(coalesce((SELECT sum(last_seq - first_seq + 1) FROM losses g WHERE g.chain = c.chain), 0)"
            " AS bigint)"
            " FROM chains c"
            " ORDER BY (SELECT utc FROM links l WHERE l.chain = c.chain AND l.seq = c.complete_to), chain"
        )
        return [Chain(*row) for row in rows]

    def gaps(self) -> list[Gap]:
        """The first gap of each chain that has one."""
        incomplete = self.query(
            "SELECT table_name, chain, complete_to, tip, heard FROM (SELECT c.*, coalesce("
            "(SELECT max(seq) FROM links l WHERE l.chain = c.chain), 0) AS tip FROM chains c) known"
            " WHERE broken = '' AND (tip > complete_to OR heard > complete_to) ORDER BY chain"
        )
        gaps = []
        for table, chain, complete_to, tip, heard in incomplete:
            first, last = complete_to + 1, min(max(tip, heard), complete_to + REPLAY_MAX)
            known = self.query(
                "SELECT seq FROM links WHERE chain = ? AND seq BETWEEN ? AND ?", chain, first, last
            )
            missing = sorted(set(range(first, last + 1)).difference(seq for (seq,) in known))
            if missing:
                gaps.append(Gap(table, chain, *_near(missing), certain=missing[0] < tip))
        return gaps

    def forget_heard(self, chain: str) -> None:
        """Nobody has what was spoken of in this chain."""
        with self.transaction():
            self.query("UPDATE chains SET heard = 0 WHERE chain = ?", chain)


def _near(missing: Sequence[int]) -> tuple[int, int]:
    """The first missing one, and the last that is asked for with it."""
    last = missing[0]
    for seq in missing:
        if seq - last > NEAR:
            break
        last = seq
    return missing[0], last


def _by_place(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Entries with one a place, in the order in which every instance writes; and the others."""
    unique: dict[tuple[str, int], Entry] = {}
    others = [entry for entry in entries if unique.setdefault((entry.chain, entry.seq), entry) is not entry]
    return [unique[place] for place in sorted(unique)], others
