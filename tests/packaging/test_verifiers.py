"""Three verifiers that know nothing of each other say the same of every vector, and of damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.support.chains import ChainMaker, signer
from tests.support.daemon import Installation
from tests.support.evidence import a_chain, changed, exported, fill, played
from tools.agree.__main__ import agree
from tools.agree.damage import DAMAGE
from tools.agree.evidence import EVIDENCE_DAMAGE
from tools.agree.stolen import STOLEN
from tools.agree.verifiers import EXAMPLES, Foreign, MissingError, go, is_good, javascript, ours

from dollyd.client.proof.evidence import verify_evidence
from dollyd.daemon.evidence.export import Wanted
from dollyd.wire.jws import keys_of_jwks
from dollyd.wire.record import Kind
from dollyd.wire.stamp import iso_utc

pytestmark = pytest.mark.long
VECTORS = Path(__file__).resolve().parents[2] / "docs" / "vectors"
KEYS = VECTORS / "keys.json"
EXPECTED = json.loads((VECTORS / "expected.json").read_text("ascii"))
SHORT = 420

Make: TypeAlias = Callable[[Path], Foreign]


def made(make: Make, folder: Path) -> Foreign:
    try:
        return make(folder)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(params=[javascript, go], ids=["javascript", "go"], scope="module")
def verifier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    return made(request.param, tmp_path_factory.mktemp("verifier"))


def test_ours_says_of_every_vector_what_is_expected() -> None:
    keys = keys_of_jwks(json.loads(KEYS.read_text("ascii"))["keys"])
    for wanted in EXPECTED:
        said = ours(keys, VECTORS / wanted["file"])
        assert is_good(said) == (wanted["verdict"] == "good"), (wanted, said)
        if "record" in wanted and (VECTORS / wanted["file"]).stat().st_size:
            assert said.startswith(f"WRONG: record {wanted['record']}: "), (wanted, said)


def test_others_say_of_every_vector_what_is_expected_and_why(verifier: Foreign) -> None:
    verdicts = verifier.verdicts(KEYS, [VECTORS / wanted["file"] for wanted in EXPECTED])
    for wanted, said in zip(EXPECTED, verdicts, strict=True):
        bad = f"WRONG: record {wanted.get('record')}: {wanted.get('reason')}: "
        assert said.startswith("good: " if wanted["verdict"] == "good" else bad), (wanted, said)


def test_vectors_show_every_way_to_be_wrong() -> None:
    reasons = {wanted["reason"] for wanted in EXPECTED if "reason" in wanted}
    assert reasons == {
        "envelope", "base64url", "payload", "header", "record", "key", "signature", "chain", "body", "round",
        "persons",
    }  # fmt: skip


def test_all_agree_on_damaged_files(tmp_path: Path) -> None:
    outcome = agree(SHORT, 4, [made(javascript, tmp_path), made(go, tmp_path)], tmp_path)
    assert outcome.disagreements == []
    assert outcome.bad["untouched"] == 0 < outcome.good["untouched"]
    assert outcome.bad.keys() >= DAMAGE.keys() - {"untouched", "nested deeper, signed", "cut off"}
    assert outcome.bad["tar: untouched"] == 0 < outcome.good["tar: untouched"]
    assert (outcome.good + outcome.bad).keys() == DAMAGE.keys() | EVIDENCE_DAMAGE.keys() | STOLEN.keys()
    assert outcome.bad["stolen: untouched"] == 0 < outcome.good["stolen: untouched"]
    assert outcome.bad.keys() >= STOLEN.keys() - {"stolen: untouched", "stolen: member of another"}
    assert outcome.good.total() > SHORT // 10


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Evidence files as `dollyd export` makes them, and others with a member changed."""
    folder = tmp_path_factory.mktemp("evidence")
    installation = Installation(folder, "127.0.0.1:1", ["r1"], variant="C")
    records = played(installation, 6)
    fill(installation, a_chain(records, "r1", "a" * 32, (2, 5)))
    files = {name: folder / name for name in ("whole.tar", "packed.tar.gz", "part.tar")}
    third = next(record.at for record in records if record.kind is Kind.ROUND and record.round == 3)
    for name, path in files.items():
        exported(installation, path, Wanted(from_utc=iso_utc(third.utc_ns)) if name == "part.tar" else None)

    def damaged(name: str, prefix: str, change: Callable[[bytes], bytes]) -> None:
        def change_one(members: dict[str, bytes]) -> None:
            member = next(member for member in members if member.startswith(prefix))
            members[member] = change(members[member])

        files[name] = changed(files["whole.tar"], folder / name, change_one)

    damaged("capture.tar", "captures/", lambda data: data + b" ")
    damaged("end.tar", "records/", lambda data: b"".join(data.splitlines(keepends=True)[:-4]))
    damaged("config.tar", "config.toml", lambda data: data + b"# changed\n")
    damaged("byte.tar", "records/", lambda data: data.replace(b'"}\n', b'"} \n', 1))
    damaged(
        "hole.tar",
        "records/",
        lambda data: b"".join(data.splitlines(keepends=True)[:4] + data.splitlines(True)[5:]),
    )
    return files


def test_evidence_files_are_read(verifier: Foreign, evidence: dict[str, Path]) -> None:
    verdicts = verifier.verdicts(KEYS, list(evidence.values()))
    said = dict(zip(evidence, verdicts, strict=True))
    trusted = keys_of_jwks(json.loads(KEYS.read_text("ascii"))["keys"])
    for name, path in evidence.items():
        report = verify_evidence(path, trusted)
        assert report.ok == is_good(said[name]), (name, said[name], report.problems)
        if report.ok:
            assert said[name] == f"good: {report.records} records in 1 chains"
    assert {name for name, verdict in said.items() if is_good(verdict)} == {
        "whole.tar",
        "packed.tar.gz",
        "part.tar",
    }
    assert ": body: " in said["capture.tar"]
    assert ": file: chain " in said["end.tar"]
    assert ": file: config.toml " in said["config.tar"]
    assert said["byte.tar"].startswith("WRONG: record 1: envelope: ")
    assert ": chain: " in said["hole.tar"]
    assert verify_evidence(evidence["part.tar"], trusted).heads["a" * 32].first > 1


def test_a_key_set_for_others_too_is_read(verifier: Foreign, tmp_path: Path) -> None:
    """Members of a JWK that say more than they need to are no reason to stop."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [signer().jwk | {"key_ops": ["verify"]}]}, indent=2))
    records = tmp_path / "records.jsonl"
    records.write_bytes(b"\n".join(ChainMaker().begin().play(1, 2).envelopes))
    assert is_good(verifier.verdicts(keys, [records])[0])


def test_the_javascript_is_short() -> None:
    assert len((EXAMPLES / "verify.mjs").read_text("utf-8").splitlines()) < 200


def test_the_page_names_every_reason() -> None:
    page = (VECTORS.parent / "wire-format.md").read_text("utf-8")
    assert [
        one["reason"] for one in EXPECTED if "reason" in one and f"| `{one['reason']}` |" not in page
    ] == []
