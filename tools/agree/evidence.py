"""What is done to a good evidence file: `EVIDENCE_DAMAGE`, by name. Each takes members, and gives a file."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TypeAlias

import msgspec
from tests.support.chains import signer
from tests.support.daemon import Installation
from tests.support.evidence import Chain, a_chain, contents, exported, fill, played
from tools.agree.damage import DAMAGE, Lines

from dollyd.client.proof import tar
from dollyd.client.proof.evidence import CAPTURES, MANIFEST, RECORDS, capture_name
from dollyd.client.proof.reading import Read, read
from dollyd.daemon.evidence.export import Wanted
from dollyd.wire.record import Kind
from dollyd.wire.stamp import iso_utc

Members: TypeAlias = list[tuple[str, bytes]]
EvidenceDamage: TypeAlias = Callable[[Members, Random], bytes]

_R1 = f"{RECORDS}r1.jsonl"
_TOKEN = re.compile(rb'"[^"]*"|\d+')
_TOKENS = (*rb'0 1 2 7 -1 1.0 "" "r1" "chain" "v" null true [] {}'.split(), b'"' + b"a" * 32 + b'"')
"""What names and values of a manifest are replaced by."""


def good_evidence(folder: Path) -> list[Members]:
    """Evidence files to damage: of a chain and the one after it, whole, and from the middle of the first."""
    installation = Installation(folder, "127.0.0.1:1", variant="C")
    records = played(installation, 4)
    old = a_chain(records, "r1", "a" * 32, (1, 3))
    new = Chain("r1", "b" * 32, signer(3))
    new.begin(after=old)
    for record in records:
        new.say(record)
    fill(installation, old, new)
    late = next(record.at for record in records if record.kind is Kind.ROUND and record.round == 3)
    files = []
    for wanted in (Wanted(), Wanted(from_utc=iso_utc(late.utc_ns))):
        exported(installation, folder / "good.tar", wanted)
        files.append(list(contents(folder / "good.tar").items()))
    return files


def packed(members: Members) -> bytes:
    """The evidence file of these members."""
    parts = (tar.header(name, len(data)) + data + tar.padding(len(data)) for name, data in members)
    return b"".join(parts) + tar.END


# --- the manifest stays --------------------------------------------------------------------------


def _bit_of_file(members: Members, rng: Random) -> bytes:
    data = bytearray(packed(members))
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _bit_of_header(members: Members, rng: Random) -> bytes:
    before = packed(members[: rng.randrange(len(members))])[: -len(tar.END)]
    data = bytearray(packed(members))
    data[len(before) + rng.randrange(tar.BLOCK)] ^= 1 << rng.randrange(8)
    return bytes(data)


def _file_cut(members: Members, rng: Random) -> bytes:
    data = packed(members)
    return data[: rng.choice([len(data) - tar.BLOCK, rng.randrange(len(data))])]


def _member_changed(members: Members, rng: Random) -> bytes:
    at = rng.randrange(len(members))
    name, data = members[at]
    place = rng.randrange(len(data))
    return packed([*members[:at], (name, data[:place] + data[place + 1 :]), *members[at + 1 :]])


def _member_dropped(members: Members, rng: Random) -> bytes:
    at = rng.randrange(len(members))
    return packed([*members[:at], *members[at + 1 :]])


def _member_moved(members: Members, rng: Random) -> bytes:
    moved = list(members)
    moved.insert(rng.randrange(len(members)), moved.pop(rng.randrange(len(members))))
    return packed(moved)


def _member_added(members: Members, rng: Random) -> bytes:
    at, (name, data) = rng.randrange(len(members) + 1), rng.choice(members)
    named = rng.choice([name, "notes.txt", f"{CAPTURES}{'a' * 32}/2.jsonl", f"{RECORDS}r2.jsonl"])
    return packed([*members[:at], (named, data), *members[at:]])


def _records_cut(members: Members, rng: Random) -> bytes:
    lines = dict(members)[_R1].splitlines(keepends=True)
    return packed(_with(members, {_R1: b"".join(lines[: rng.randrange(len(lines))])}))


def _token_of_manifest(members: Members, rng: Random) -> bytes:
    manifest = dict(members)[MANIFEST]
    token = rng.choice(list(_TOKEN.finditer(manifest)))
    changed = manifest[: token.start()] + rng.choice(_TOKENS) + manifest[token.end() :]
    return packed(_with(members, {MANIFEST: changed}))


def _gzip(members: Members) -> bytes:
    return gzip.compress(packed(members), 1, mtime=0)


def _gzip_untouched(members: Members, _: Random) -> bytes:
    return _gzip(members)


def _gzip_bit(members: Members, rng: Random) -> bytes:
    data = bytearray(_gzip(members))
    data[rng.choice([rng.randrange(12), rng.randrange(len(data))])] ^= 1 << rng.randrange(8)
    return bytes(data)


def _gzip_cut(members: Members, rng: Random) -> bytes:
    data = _gzip(members)
    return data[: rng.choice([len(data) - 1 - rng.randrange(9), rng.randrange(len(data))])]


def _gzip_longer(members: Members, rng: Random) -> bytes:
    behind = (b"\0", bytes(rng.randrange(1, 2000)), gzip.compress(b"", mtime=0), b"x")
    return _gzip(members) + rng.choice(behind)


def _with(members: Members, others: dict[str, bytes]) -> Members:
    return [(name, others.get(name, data)) for name, data in members]


# --- the manifest fits again ---------------------------------------------------------------------


def _fitting(members: Members, first_captures: dict[str, int] | None = None) -> bytes:
    """With a manifest that fits: who changes the file changes this too."""
    manifest = msgspec.json.decode(dict(members)[MANIFEST])
    manifest["members"] = [
        {"name": name, "size": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in members
        if name != MANIFEST and not name.startswith(CAPTURES)
    ]
    ends = {found.chain: (found.seq, found.digest) for found in map(_read, _lines(members))}
    for part in manifest["chains"]:
        part["last_seq"], part["head"] = ends.get(part["chain"], (part["last_seq"], part["head"]))
        part["captures_from"] = (first_captures or {}).get(part["chain"], part["captures_from"])
    return packed(_with(members, {MANIFEST: msgspec.json.encode(manifest)}))


def _lines(members: Members) -> Lines:
    return dict(members)[_R1].splitlines()


def _read(line: bytes) -> Read:
    return read(line, {})


def _untouched(members: Members, _: Random) -> bytes:
    return _fitting(members)


def _records_damaged(members: Members, rng: Random) -> bytes:
    lines = rng.choice(list(DAMAGE.values()))(_lines(members), rng)
    return _fitting(_with(members, {_R1: b"".join(line + b"\n" for line in lines)}))


def _newline_cut(members: Members, _: Random) -> bytes:
    return _fitting(_with(members, {_R1: dict(members)[_R1][:-1]}))


def _line_ends(members: Members, rng: Random) -> bytes:
    """Other bytes between two records that some take for a line end."""
    lines = dict(members)[_R1].split(b"\n")
    at = rng.randrange(1, len(lines) - 1)
    end = rng.choice([b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\n\n"])
    data = b"\n".join(lines[:at]) + end + b"\n".join(lines[at:])
    return _fitting(_with(members, {_R1: data}))


def _told_falsely(members: Members, rng: Random) -> bytes:
    """Site, sizes and names of a manifest that fits otherwise."""
    old, new = rng.choice(
        [
            (b'"site":"house"', b'"site":"casino"'),
            (b'"site":"house"', b'"site":"House"'),
            (b'"size":', b'"size":1'),
            (b'"first_seq":1,', b'"first_seq":-1,'),
            (b'"captures_from":1,', b'"captures_from":9007199254740993,'),
        ]
    )
    manifest = dict(members)[MANIFEST].replace(old, new, 1)
    return packed(_with(members, {MANIFEST: manifest}))


def _member_named(members: Members, rng: Random) -> bytes:
    """A member under a name that no file has, listed."""
    name = rng.choice(
        ["../../etc/cron.d/x", "/x", "notes.txt", "records/R1.jsonl", "layouts/x.toml", "keys.json/"]
    )
    return _fitting([*members, (name, b"")])


def _end_of_chain_cut(members: Members, rng: Random) -> bytes:
    """One of the chains, and with its records their captures."""
    found = [_read(line) for line in _lines(members)]
    first = rng.choice(found)
    gone = {one.digest for one in found if one.chain == first.chain and one.seq > first.seq}
    captures = {capture_name(one.chain, one.seq) for one in found if one.digest in gone}
    kept = [line for line, one in zip(_lines(members), found, strict=True) if one.digest not in gone]
    left = [(name, data) for name, data in members if name not in captures]
    return _fitting(_with(left, {_R1: b"".join(line + b"\n" for line in kept)}))


def _captures_not_kept(members: Members, rng: Random) -> bytes:
    """The first ones of a chain are not there, and the manifest says so; or is one off."""
    chain = rng.choice([_read(line).chain for line in _lines(members)])
    captures = [name for name, _ in members if name.startswith(f"{CAPTURES}{chain}/")]
    gone = captures[: rng.randint(1, len(captures))]
    kept_from = int(Path(gone[-1]).stem) + rng.randrange(2)
    return _fitting([(name, data) for name, data in members if name not in gone], {chain: kept_from})


def _text_changed(members: Members, rng: Random) -> bytes:
    name = rng.choice([name for name, _ in members if name.endswith(".toml")])
    return _fitting(_with(members, {name: dict(members)[name] + b"# changed\n"}))


def _text_dropped(members: Members, rng: Random) -> bytes:
    name = rng.choice([name for name, _ in members if name.endswith(".toml")])
    return _fitting([member for member in members if member[0] != name])


EVIDENCE_DAMAGE: dict[str, EvidenceDamage] = {
    "tar: untouched": _untouched,
    "tar: bit flipped": _bit_of_file,
    "tar: bit of a header": _bit_of_header,
    "tar: cut off": _file_cut,
    "tar: member changed": _member_changed,
    "tar: member dropped": _member_dropped,
    "tar: member moved": _member_moved,
    "tar: member added": _member_added,
    "tar: records cut": _records_cut,
    "tar: manifest changed": _token_of_manifest,
    "tar: told falsely": _told_falsely,
    "tar: line ends, fitting": _line_ends,
    "tar: names, fitting": _member_named,
    "gzip: untouched": _gzip_untouched,
    "gzip: bit flipped": _gzip_bit,
    "gzip: cut off": _gzip_cut,
    "gzip: longer": _gzip_longer,
    "tar: records, fitting": _records_damaged,
    "tar: last byte, fitting": _newline_cut,
    "tar: end, fitting": _end_of_chain_cut,
    "tar: captures, fitting": _captures_not_kept,
    "tar: text, fitting": _text_changed,
    "tar: no text, fitting": _text_dropped,
}
