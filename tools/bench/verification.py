"""Records a second of offline verification: every signature on one core and on all, and the chain alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tools.bench.report import Figure, at_least

from dollyd.client.proof.verify import Report, verify_journal

SIGNATURES_TARGET = 8_000
"""Records a second a core."""
CHAIN_TARGET = 100_000


def measure(journal: Path) -> list[Figure]:
    """Verify a journal in each way."""
    cores = len(os.sched_getaffinity(0))
    one = _rate(lambda: verify_journal(journal, jobs=1), time.process_time)
    every = _rate(lambda: verify_journal(journal, jobs=cores), time.perf_counter)
    chain = _rate(lambda: verify_journal(journal, fast=True), time.process_time)
    form = "{:,.0f} records/s"
    return [
        at_least("verify: every signature, one core", one, SIGNATURES_TARGET, form),
        Figure("  of this: one Ed25519 verification", f"{_signature_us():.0f} us"),
        at_least(f"verify: every signature, {cores} cores", every, SIGNATURES_TARGET * cores, form),
        at_least("verify: chain, heads and checkpoints, one core", chain, CHAIN_TARGET, form),
    ]


def _rate(verify: Callable[[], Report], clock: Callable[[], float]) -> float:
    began_s = clock()
    report = verify()
    took_s = clock() - began_s
    if not report.ok:
        raise RuntimeError(f"the bench's own journal does not verify: {report.problems[0]}")
    return report.records / took_s


def _signature_us(times: int = 500) -> float:
    """What the library takes for one Ed25519 verification."""
    key = Ed25519PrivateKey.generate()
    text = bytes(2000)
    signature, public = key.sign(text), key.public_key()
    began_s = time.process_time()
    for _ in range(times):
        public.verify(signature, text)
    return (time.process_time() - began_s) / times * 1e6
