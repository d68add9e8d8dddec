"""Proof that decisions follow from raw frames: every captured record is derived once more.

The capture that a record's digest seals is fed to the same rules; the payload built from what they say must
be the signed payload, byte for byte. For an evidence file the rules are those in the file.
"""

from __future__ import annotations

import re
import secrets
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from dollyd.client.proof.evidence import CONFIG, TEXT_FOLDERS, EvidenceFile
from dollyd.client.proof.reading import DECISIONS
from dollyd.client.proof.sources import JournalFile
from dollyd.client.proof.verify import CaptureOf
from dollyd.daemon.evidence.texts import to_toml
from dollyd.daemon.host.secret_files import write_secret
from dollyd.daemon.settings.load import TableSettings, load
from dollyd.daemon.table.capture import CaptureError, rederive
from dollyd.drivers import DRIVERS
from dollyd.wire.decoding import from_toml
from dollyd.wire.errors import ConfigError
from dollyd.wire.jws import parse_envelope
from dollyd.wire.record import Capture, Named, Record, Setting, encode

NOT_KEPT = "the raw capture is not kept any more"
_NOT_AT_HAND = "absent.key"
_TEXT_NAME = re.compile(rf"({'|'.join(TEXT_FOLDERS)})/[0-9a-f]{{64}}\.toml")

RulesOf: TypeAlias = Callable[[str, Setting | None], "TableSettings | str"]
"""How a table was set up when it decided under this setting, or why that is not known."""


@dataclass(frozen=True, slots=True)
class Derived:
    """One decision. `why` is empty where the same payload was derived."""

    table: str
    seq: int
    round: int
    kind: str
    why: str
    unproven: tuple[str, ...] = ()
    """Devices whose proofs could not be checked, for the keys shared with them are not at hand."""


class _Evidence(msgspec.Struct):
    capture: Capture | None = None


class _Body(msgspec.Struct):
    evidence: _Evidence
    setting: Setting | None = None
    """A rejected throw has none; the end of its round has."""


def rederive_journal(path: Path, tables: Mapping[str, TableSettings]) -> Iterator[Derived]:
    """Derive every decision of a journal again. Raises `SourceError` or `EnvelopeError` if it is damaged."""
    with closing(JournalFile(path)) as journal:
        yield from _derive(journal.envelopes(), journal.capture, _configured(tables))


def rederive_evidence(path: Path, tables: Mapping[str, TableSettings] | None = None) -> Iterator[Derived]:
    """Derive every decision in an evidence file again, whose raw capture was kept.

    By the rules in the file, or by `tables`. Keys shared with devices are in no evidence file: by the rules
    there a decision must follow with their proofs taken for right, or else for wrong, and `Derived.unproven`
    names the devices.
    Raises `SourceError` or `EnvelopeError` where the file is damaged.
    """
    with closing(EvidenceFile(path)) as evidence, tempfile.TemporaryDirectory() as directory:
        rules_of = _FiledRules(evidence, Path(directory)) if tables is None else _configured(tables)
        kept_from = {part.chain: part.captures_from for part in evidence.manifest.chains}
        yield from _derive(evidence.envelopes(), evidence.capture, rules_of, kept_from)


def _derive(
    envelopes: Iterable[bytes],
    capture_of: CaptureOf,
    rules_of: RulesOf,
    kept_from: Mapping[str, int] | None = None,
) -> Iterator[Derived]:
    """`kept_from`: by chain the first record from which captures must be there; others are passed over."""
    for envelope in envelopes:
        payload = parse_envelope(envelope).payload
        record = msgspec.json.decode(payload, type=Record)
        if record.kind in DECISIONS:
            capture = capture_of(record.chain, record.seq)
            if capture is not None or kept_from is None or record.seq >= kept_from.get(record.chain, 1):
                body = msgspec.json.decode(record.body, type=_Body)
                table = rules_of(record.table, body.setting)
                why = table if isinstance(table, str) else _why_not(record, payload, capture, table)
                if not isinstance(table, str) and why and unproven_of(table):
                    why = _why_not(record, payload, capture, _set_unproven(table, set())) and why
                unproven = () if isinstance(table, str) or why == NOT_KEPT else unproven_of(table)
                yield Derived(record.table, record.seq, record.round, record.kind, why, unproven)


def unproven_of(table: TableSettings) -> tuple[str, ...]:
    """The devices whose proofs are taken unchecked."""
    return tuple(name for name, device in table.devices.items() if device.setup.unproven)


def _why_not(record: Record, payload: bytes, capture: bytes | None, table: TableSettings) -> str:
    """Why a decision cannot be derived, empty where it is the same byte for byte."""
    if capture is None:
        return NOT_KEPT
    protocols = {name: device.driver.protocol(device.setup) for name, device in table.devices.items()}
    try:
        decisions = [new for new in rederive(table.setup, protocols, capture) if new.capture]
    except CaptureError as error:
        return str(error)
    if not decisions:
        return "the capture gives no decision"
    derived = msgspec.structs.replace(
        record, kind=str(decisions[-1].kind), round=decisions[-1].round, body=msgspec.Raw(decisions[-1].body)
    )
    return "" if encode(derived) == payload else "the capture gives another decision"


# --- the rules by which was decided ----------------------------------------------------------------


def _configured(tables: Mapping[str, TableSettings]) -> RulesOf:
    """Tables as they are configured now; a decision under other rules is not theirs."""

    def rules_of(name: str, setting: Setting | None) -> TableSettings | str:
        table = tables.get(name)
        if table is None:
            return "the configuration has no such table"
        return (setting and _other_rules(setting, table)) or table

    return rules_of


def _other_rules(setting: Setting, table: TableSettings) -> str:
    setup = table.setup
    pairs: tuple[tuple[str, Named, Named], ...] = (
        ("rulebook", setting.rulebook, setup.rulebook),
        ("profile", setting.profile, setup.profile),
    )
    for what, then, now in pairs:
        if then != now:
            return f"decided under {what} {then.id} {then.digest[:12]}, now it is {now.id} {now.digest[:12]}"
    return ""


class _FiledRules:
    """Tables as the evidence file has them, each under the setting that a record names."""

    def __init__(self, evidence: EvidenceFile, directory: Path) -> None:
        """Unpacks the rule texts into `directory`. Raises `SourceError`."""
        self._config = directory / CONFIG
        self._text = evidence.text(CONFIG) or b""
        self._known: dict[bytes, TableSettings | str] = {}
        for name in filter(_TEXT_NAME.fullmatch, evidence.names()):
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(evidence.text(name) or b"")

    def __call__(self, name: str, setting: Setting | None) -> TableSettings | str:
        known_as = msgspec.json.encode([name, setting])
        if known_as not in self._known:
            self._known[known_as] = self._load(name, setting)
        return self._known[known_as]

    def _load(self, name: str, setting: Setting | None) -> TableSettings | str:
        try:
            tree = from_toml(self._text)
            table: dict[str, Any] = tree["tables"][name]
            tree["tables"] = {name: table | _as_section(setting)}
            absent = self._without_secret(tree["tables"][name]["devices"])
            self._config.write_text(to_toml(tree))
            return _set_unproven(load(self._config).tables[name], absent)
        except ConfigError as error:
            return f"config.toml: {error.key}: {error.problem}; give --config"
        except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
            return "config.toml in the file has no such table; give --config"

    def _without_secret(self, devices: dict[str, Any]) -> set[str]:
        """The devices that need a shared key, each of which is given one that proves nothing."""
        absent = set()
        for name, section in devices.items():
            driver = DRIVERS.get(section.get("driver", ""))
            place = driver and driver.roles.get(section.get("role", ""))
            if place and place.needs_secret:
                section["secret_file"] = _NOT_AT_HAND
                absent.add(name)
        secret = self._config.with_name(_NOT_AT_HAND)
        if absent and not secret.exists():
            write_secret(secret, secrets.token_hex(16).encode())
        return absent


def _set_unproven(table: TableSettings, absent: set[str]) -> TableSettings:
    """The table whose devices of these names are believed without a proof, and no others."""
    devices = {
        name: replace(device, setup=replace(device.setup, unproven=name in absent))
        for name, device in table.devices.items()
    }
    return replace(table, devices=devices)


def _as_section(setting: Setting | None) -> dict[str, Any]:
    if setting is None:
        return {}
    return {
        "game": setting.game,
        "variant": setting.variant,
        "rulebook": f"rulebooks/{setting.rulebook.digest}.toml",
        "profile": f"profiles/{setting.profile.digest}.toml",
        "zero_rule": setting.zero_rule or "",
    }
