"""How far a consumer has come in each chain, kept where the consumer wants it."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from dollyd.client.stream.file_lock import lock
from dollyd.wire.decoding import from_json
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import replace_file

_SESSION = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Watermark:
    """Everything of a chain up to and with record `seq` is done; `digest`: SHA-256 of its envelope, hex.

    `keys`: public keys (`x` of the JWK) that entered the chain by rotation up to here, so that the trust in
    them outlives a restart; `kid`: the key that announced the first of them, or signs where there is none.
    So the last of them all is the one whose turn it is to sign. Without any the next record decides.

    `rules`: what the next record is judged by (`ChainRules.state`), one text of a few kilobytes at most. A
    store that does not keep it costs checks: a correction is not held against rounds from before.

    No digest: record `seq` was given up for lost (`Stream.accept_loss`), and the next one is taken at its
    word for what came before it.
    """

    table: str
    chain: str
    seq: int
    digest: str
    keys: tuple[str, ...] = ()
    kid: str = ""
    rules: str = ""


class WatermarkStore(Protocol):
    """Where watermarks are kept. In a durable store, what `save` returned from is there after a crash."""

    def load(self) -> dict[str, Watermark]:
        """The newest watermark of each chain, by chain."""
        ...

    def save(self, watermark: Watermark) -> None:
        """Keep it; one that is older than what is kept changes nothing."""
        ...


@runtime_checkable
class SessionStore(Protocol):
    """A store that also keeps what nobody else can know of the consumer's session at the broker."""

    def session(self) -> str:
        """A random text, the same for as long as the watermarks are kept."""
        ...


def session_of(store: WatermarkStore) -> str:
    """The random part of a client id; of this process alone where the store keeps none.

    A session belongs to whoever says its client id. One that could be guessed would be taken by any client
    that the broker lets in.
    """
    return store.session() if isinstance(store, SessionStore) else _random()


class MemoryWatermarks:
    """Nothing outlives the process: for displays and tests."""

    def __init__(self) -> None:
        self._kept: dict[str, Watermark] = {}
        self._session = _random()

    def session(self) -> str:
        """A random text, the same for this store."""
        return self._session

    def load(self) -> dict[str, Watermark]:
        """The newest watermark of each chain, by chain."""
        return dict(self._kept)

    def save(self, watermark: Watermark) -> None:
        """Keep it; one that is older than what is kept changes nothing."""
        if _newer(self._kept, watermark):
            self._kept[watermark.chain] = watermark


class FileWatermarks:
    """A JSON file, replaced as a whole and synced at each save: some milliseconds a record.

    One process at a time: two would pay by the same records, and each would lose what the other has kept. A
    file that another process has, or that is none of ours, raises `ConfigError`; what the file system
    refuses, `OSError`. The session stands beside it, in `<name>.session`, for its owner alone to read.
    """

    def __init__(self, path: Path) -> None:
        if not lock(path):
            remedy = "stop the other one, or give this one a file and a name of its own"
            raise ConfigError(str(path), "", "another process keeps its watermarks there", remedy)
        self._path = path
        self._kept: dict[str, Watermark] = self._read()

    def load(self) -> dict[str, Watermark]:
        """The newest watermark of each chain, by chain."""
        return dict(self._kept)

    def save(self, watermark: Watermark) -> None:
        """Keep it; one that is older than what is kept changes nothing."""
        if not _newer(self._kept, watermark):
            return
        kept = self._kept | {watermark.chain: watermark}
        data = msgspec.json.format(msgspec.json.encode(list(kept.values())), indent=1) + b"\n"
        replace_file(self._path, data)
        self._kept = kept

    def session(self) -> str:
        """A random text, the same for as long as the file beside the watermarks is there."""
        path = self._path.with_name(f"{self._path.name}.session")
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{_random()}\n")
        kept = path.read_text("ascii", errors="replace").strip()
        if not _SESSION.fullmatch(kept):  # written half before a power cut
            path.unlink()
            return self.session()
        return kept

    def _read(self) -> dict[str, Watermark]:
        try:
            kept = from_json(self._path.read_bytes(), list[Watermark])
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            remedy = (
                "restore it from a copy; without it every record is delivered again from the start, and"
                " whoever pays by records pays twice"
            )
            raise ConfigError(str(self._path), "", f"is no file of watermarks: {error}", remedy) from error
        return {watermark.chain: watermark for watermark in kept}


class SqliteWatermarks:
    """The table `dollyd_watermark` in the consumer's own data base.

    Inside a transaction that is open, `save` belongs to it: what a record leads to and its watermark are kept
    together or not at all. Outside of one, `save` is a transaction of its own. Raises `sqlite3.Error`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS dollyd_watermark (chain TEXT PRIMARY KEY, table_name TEXT NOT NULL,"
            " seq INTEGER NOT NULL, digest TEXT NOT NULL, keys TEXT NOT NULL, kid TEXT NOT NULL DEFAULT '',"
            " rules TEXT NOT NULL DEFAULT '')"
        )
        columns = connection.execute("SELECT name FROM pragma_table_info('dollyd_watermark')").fetchall()
        for added in {"kid", "rules"}.difference(name for (name,) in columns):  # made by an older version
            connection.execute(f"ALTER TABLE dollyd_watermark ADD COLUMN {added} TEXT NOT NULL DEFAULT ''")
        connection.execute("CREATE TABLE IF NOT EXISTS dollyd_session (id TEXT NOT NULL)")

    def session(self) -> str:
        """A random text, the same for as long as the data base is there."""
        part_of_another = self._connection.in_transaction
        self._connection.execute(
            "INSERT INTO dollyd_session SELECT ? WHERE NOT EXISTS (SELECT 1 FROM dollyd_session)",
            (_random(),),
        )
        ((kept,),) = self._connection.execute("SELECT id FROM dollyd_session").fetchall()
        if not part_of_another:
            self._connection.commit()
        return str(kept)

    def load(self) -> dict[str, Watermark]:
        """The newest watermark of each chain, by chain."""
        query = "SELECT table_name, chain, seq, digest, keys, kid, rules FROM dollyd_watermark"
        return {
            chain: Watermark(table, chain, seq, digest, tuple(keys.split()), kid, rules)
            for table, chain, seq, digest, keys, kid, rules in self._connection.execute(query).fetchall()
        }

    def save(self, watermark: Watermark) -> None:
        """Keep it; one that is older than what is kept changes nothing."""
        part_of_another = self._connection.in_transaction
        self._connection.execute(
            "INSERT INTO dollyd_watermark (chain, table_name, seq, digest, keys, kid, rules)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq,"
            " digest = excluded.digest, keys = excluded.keys, kid = excluded.kid, rules = excluded.rules"
            " WHERE excluded.seq > seq",
            (
                watermark.chain,
                watermark.table,
                watermark.seq,
                watermark.digest,
                " ".join(watermark.keys),
                watermark.kid,
                watermark.rules,
            ),
        )
        if not part_of_another:
            self._connection.commit()


def _random() -> str:
    return secrets.token_hex(16)


def _newer(kept: dict[str, Watermark], watermark: Watermark) -> bool:
    known = kept.get(watermark.chain)
    return known is None or watermark.seq > known.seq
