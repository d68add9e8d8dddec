"""The node's keys and its trust file: which key signs which chain, its replacement, and its loss.

An operator makes a key, adds it to the trust file, names it as `signing.next_key`, and restarts the daemon or
sends SIGHUP. Every chain then announces it in a `rotated` record; no round is touched. When that is done the
new key becomes `signing.key`, and the old file may be destroyed.

A chain whose key is neither of the two cannot go on, for nobody could tell its next record from a forged one.
Another chain begins in the same journal, and its first record names the one that ended. So it goes, too, with
a table that was out of the configuration while its key was replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dollyd.daemon.host.logger import Logger
from dollyd.daemon.journal.store import Journal, Tail
from dollyd.daemon.journal.writer import Draft, Writer, chain_start
from dollyd.daemon.keys.signing import Signer, load_signer
from dollyd.daemon.keys.trust_file import read_trust
from dollyd.daemon.settings.load import Settings
from dollyd.wire.errors import ConfigError
from dollyd.wire.judgement import Claim, Verdict
from dollyd.wire.jws import EnvelopeError, key_of_jwk, parse_envelope, thumbprint
from dollyd.wire.record import IncidentBody, KeyBody, Kind, Record, encode
from dollyd.wire.stamp import Stamp, iso_utc
from dollyd.wire.trust import Trust, newer

_LOG = Logger(__name__)


@dataclass(frozen=True, slots=True)
class Keyring:
    """What `[signing]` of the configuration names, read and checked."""

    file: str
    node: str
    key: Signer
    next_key: Signer | None
    trust: Trust | None

    @property
    def newest(self) -> Signer:
        """The key that signs once all chains have gone over to it."""
        return self.next_key or self.key

    def signer(self, kid: str) -> Signer | None:
        """The key of this `kid`, None where it is not at hand."""
        return next((key for key in (self.key, self.newest) if key.kid == kid), None)

    def jwks(self) -> bytes:
        """Both public keys, as they are published."""
        keys = {signer.kid: signer.jwk for signer in (self.key, self.newest)}
        return msgspec.json.encode({"keys": list(keys.values())})

    def replacing(self, old: Keyring) -> Keyring:
        """Itself, where a running daemon may go over to it from `old`.

        Raises `ConfigError` where the key that signs now has gone, or the trust file is an older one.
        """
        if self.signer(old.newest.kid) is None:
            problem = f"key {old.newest.kid}, which signs now, is neither this nor signing.next_key"
            raise ConfigError(self.file, "signing.key", problem, "name the file of the key that signs")
        if self.trust is not None:
            try:
                newer(old.trust, self.trust)
            except EnvelopeError as error:
                remedy = "give the newest trust file of the site"
                raise ConfigError(self.file, "signing.trust", str(error), remedy) from error
        return self

    def verdict(self, table: str, at: Stamp) -> Verdict:
        """What the trust file, which must be there, says of what is signed now for a table."""
        claim = Claim(kid=self.newest.kid, node=self.node, table=table, utc=iso_utc(at.utc_ns), live=True)
        return self.trust.judge(claim).verdict if self.trust is not None else Verdict.UNKNOWN

    def warn_of_mistrust(self, at: Stamp, tables: Iterable[str], journal: Journal) -> None:
        """Log where the trust file would not take what the node signs: consumers will refuse it."""
        if self.trust is None:
            return
        for table in tables:
            if (verdict := self.verdict(table, at)) is not Verdict.VALID:
                _LOG.error("key_not_trusted", kid=self.newest.kid, table=table, verdict=str(verdict))
        for early in too_early(journal, self.trust):
            _LOG.error("records_before_trust", kid=early.kid, what=early.what, remedy=early.remedy)


@dataclass(frozen=True, slots=True)
class TooEarly:
    """A chain whose first record was signed before its key counts: nobody who pins the root takes it."""

    kid: str
    table: str
    utc: str
    """When that record was made."""
    not_before: str

    @property
    def what(self) -> str:
        """In words."""
        key = f"key {self.kid} counts from {self.not_before} on"
        return f"table {self.table} has records of {self.utc}, but {key}: consumers refuse them as not-yet"

    @property
    def remedy(self) -> str:
        """What to do."""
        back = f"--not-before {self.utc[:19]}Z"
        return f"`dollyd trust add-node TRUST NODE JWKS {back} --root-key ROOT`, and install the new version"


def too_early(journal: Journal, trust: Trust) -> list[TooEarly]:
    """Of each key the earliest first record of a chain, where the trust file lets it begin later only."""
    found: dict[str, TooEarly] = {}
    for table, chain in journal.chains():
        first = journal.pruned_upto(chain) + 1
        for entry in journal.entries(chain, first, first):
            envelope = parse_envelope(entry.envelope)
            utc = msgspec.json.decode(envelope.payload, type=Record).time.utc
            key = trust.nodes.get(envelope.kid)
            known = found.get(envelope.kid)
            if key is not None and utc < key.not_before and (known is None or utc < known.utc):
                found[envelope.kid] = TooEarly(envelope.kid, table, utc, key.not_before)
    return list(found.values())


def load_keyring(settings: Settings) -> Keyring:
    """Read keys and trust file. Raises `ConfigError`."""
    file, signing = settings.file, settings.signing
    key = load_signer(Path(signing.key), config_file=file, key="signing.key")
    next_key = trust = None
    if signing.next_key:
        next_key = load_signer(Path(signing.next_key), config_file=file, key="signing.next_key")
    if signing.trust:
        if not signing.root:
            remedy = "give the thumbprint that `dollyd trust new-root` has told"
            raise ConfigError(file, "signing.root", "missing, but signing.trust is given", remedy)
        trust = read_trust(Path(signing.trust), signing.root, file, "signing.trust")
        if trust.site != settings.site:
            problem = f"{signing.trust} is of site {trust.site}"
            raise ConfigError(file, "signing.trust", problem, f"give that of site {settings.site}")
    return Keyring(file, settings.node, key, next_key, trust)


# --- chains at a start ---------------------------------------------------------------------------


def start_chains(
    writer: Writer, journal: Journal, keyring: Keyring, tails: Mapping[str, Tail | None], at: Stamp
) -> dict[str, Tail | None]:
    """Go on with every chain whose key is at hand, begin one where it is not, and rotate to the next key.

    Gives the tails that the tables go on from: None where a chain begins.
    """
    going_on: dict[str, Tail | None] = {}
    for table, tail in tails.items():
        kid = turn_of(journal, tail) if tail is not None else ""
        signer = keyring.signer(kid)
        if tail is not None and signer is not None:
            writer.start_chain(table, tail, signer)
            going_on[table] = tail
            continue
        writer.start_chain(table, None, keyring.newest)
        writer.submit(chain_start(table, keyring.newest, at, journal.damage, tail))
        if tail is not None:
            _LOG.error("key_lost", table=table, kid=kid, chain=tail.chain, open_round=tail.open_round)
            if tail.open_round is not None:
                writer.submit(_left_open(table, tail, tail.open_round, at))
        going_on[table] = None
    if keyring.next_key is not None:
        writer.rotate(keyring.next_key, at)
    return going_on


def turn_of(journal: Journal, tail: Tail) -> str:
    """`kid` of the key whose turn it is: the one that signed last, or that was announced with it."""
    (last,) = journal.entries(tail.chain, tail.seq, tail.seq)
    if last.kind != Kind.KEY:
        return tail.kid
    record = msgspec.json.decode(parse_envelope(last.envelope).payload, type=Record)
    return thumbprint(key_of_jwk(msgspec.json.decode(record.body, type=KeyBody).jwk))


def _left_open(table: str, tail: Tail, round_number: int, at: Stamp) -> Draft:
    """That a round of the chain before has no final record and will never have one.

    Its number stays used there, and people settle its stakes; this chain counts from 1.
    """
    body = IncidentBody(
        what="round-left-open",
        text="The key of the chain before was lost while a round was open; people must settle its stakes.",
        details={"chain": tail.chain, "round": str(round_number), "last_utc": tail.last_utc},
    )
    return Draft(table, Kind.INCIDENT, 0, encode(body), at)
