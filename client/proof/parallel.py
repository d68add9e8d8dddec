"""Envelopes read in several processes, given back in their order.

Processes, since one signature check holds the interpreter's lock. The first envelopes are read here: a small
file is done before a process has started, and most keys are known by then. A process that meets a key nobody
knows yet leaves that signature to the one who puts the records in order.

This module is also what such a process runs: `python -m dollyd.client.proof.parallel`. Both ways go messages
of MessagePack, each after its length in 4 bytes: batches with keys there, what was read back.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import IO, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dollyd.client.proof.reading import Read, read, read_chain
from dollyd.client.proof.sources import SourceError, fill
from dollyd.wire.jws import Keys

READ_HERE = 2000
"""Envelopes at the beginning that are read without starting a process."""
_BATCH = 256
_BATCHES_A_JOB = 3
"""Batches under way for each process: enough that none waits, few enough to stay small."""
_LENGTH_BYTES = 4


class _Batch(msgspec.Struct, array_like=True):
    envelopes: list[bytes]
    keys: dict[str, bytes]
    """Raw public keys by `kid`."""


_ENCODER = msgspec.msgpack.Encoder()
_BATCH_DECODER = msgspec.msgpack.Decoder(_Batch)
_DECODER = msgspec.msgpack.Decoder(list[Read])


def read_all(
    envelopes: Iterable[bytes], known: Keys, jobs: int, *, fast: bool = False
) -> Iterator[tuple[bytes, Read]]:
    """Every envelope with what it says, in order. `known` may gain keys meanwhile.

    `fast` reads what the chain asks, and in this process only: handing over would cost more than reading.
    Raises `SourceError` as the source does, after all that came before.
    """
    source = iter(envelopes)
    if fast:
        for data in source:
            yield data, read_chain(data)
        return
    for data in source if jobs == 1 else islice(source, READ_HERE):
        yield data, read(data, known)
    if jobs > 1:
        yield from _read_elsewhere(source, known, jobs)


def _read_elsewhere(source: Iterator[bytes], known: Keys, jobs: int) -> Iterator[tuple[bytes, Read]]:
    batches = _Batches(source)
    batch = batches.next()
    under_way: deque[tuple[list[bytes], Future[list[Read]]]] = deque()
    with ExitStack() as resources:
        readers = resources.enter_context(_Readers(jobs)) if batch else None
        while readers and (batch or under_way):
            while batch and len(under_way) < jobs * _BATCHES_A_JOB:
                keys = {kid: key.public_bytes_raw() for kid, key in known.items()}
                under_way.append((batch, readers.read(_Batch(batch, keys))))
                batch = batches.next()
            done, future = under_way.popleft()
            yield from zip(done, future.result(), strict=True)
    batches.finish()


class _Batches:
    """Envelopes in batches. A source that fails has its last batch first, and then its error."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source
        self._failure: SourceError | None = None

    def next(self) -> list[bytes]:
        """The next batch, empty at the end."""
        batch: list[bytes] = []
        try:
            if self._failure is None:
                fill(batch, self._source, _BATCH)  # keeps what came before a failure
        except SourceError as error:
            self._failure = error
        return batch

    def finish(self) -> None:
        """Raise what the source has failed with."""
        if self._failure is not None:
            raise self._failure


class _Readers:
    """The processes, each with a thread here that hands it one batch after the other."""

    def __init__(self, jobs: int) -> None:
        self._mine = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(jobs, "reader")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()  # closes its input, at which it ends

    def read(self, batch: _Batch) -> Future[list[Read]]:
        return self._threads.submit(self._ask, batch)

    def _started(self) -> subprocess.Popen[bytes]:
        """The process of this thread."""
        if hasattr(self._mine, "process"):
            own: subprocess.Popen[bytes] = self._mine.process
            return own
        command = [sys.executable, "-m", __name__]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  # ourselves
        self._mine.process = process
        self._processes.append(process)
        return process

    def _ask(self, batch: _Batch) -> list[Read]:
        try:
            process = self._started()
            if process.stdin is not None and process.stdout is not None:
                _send(process.stdin, _ENCODER.encode(batch))
                if answer := _receive(process.stdout):
                    return _DECODER.decode(answer)
        except OSError as error:
            raise SourceError(f"a process that checks signatures is gone: {error.strerror}") from error
        raise SourceError("a process that checks signatures has ended; try again with --jobs 1")


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    """The next message, empty at the end."""
    length = int.from_bytes(pipe.read(_LENGTH_BYTES), "big")
    message: bytes = pipe.read(length)
    return message if len(message) == length else b""


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Read batches until the input is closed."""
    while message := _receive(requests):
        batch = _BATCH_DECODER.decode(message)
        keys = {kid: Ed25519PublicKey.from_public_bytes(raw) for kid, raw in batch.keys.items()}
        _send(answers, _ENCODER.encode([read(data, keys) for data in batch.envelopes]))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
