"""Keys and signing."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from joserfc import jws as joserfc_jws
from joserfc.jwk import OKPKey
from tests.support.chains import signer

from dollyd.daemon.keys.signing import Signer, load_signer, new_key
from dollyd.wire.errors import ConfigError, SigningError
from dollyd.wire.jws import keys_of_jwks, parse_envelope, verify_envelope


def _load(path: Path) -> str:
    return load_signer(path, config_file="dollyd.toml", key="node.key").kid


def test_a_new_key_is_private_and_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    made = new_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert _load(path) == made.kid


def test_a_new_key_ignores_a_lax_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        new_key(tmp_path / "node.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "node.key").stat().st_mode) == 0o600


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    kid = new_key(path).kid
    with pytest.raises(SigningError, match="exists already"):
        new_key(path)
    assert _load(path) == kid


def test_nothing_half_made_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(SigningError, match="No space left"):
        new_key(tmp_path / "node.key")
    assert list(tmp_path.iterdir()) == []


def test_a_key_in_no_directory_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SigningError, match="cannot be written"):
        new_key(tmp_path / "none" / "node.key")


def _pem(kind: str) -> bytes:
    if kind == "elliptic":
        return ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    if kind == "encrypted":
        return Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
        )
    return {"empty": b"", "noise": b"\0\xff" * 100, "cut": new_pem()[:60]}[kind]


def new_pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("elliptic", "no Ed25519 key"),
        ("encrypted", "without a password"),
        ("empty", "no private key"),
        ("noise", "no private key"),
        ("cut", "no private key"),
    ],
)
def test_a_key_of_another_kind_is_refused(tmp_path: Path, kind: str, says: str) -> None:
    path = tmp_path / "node.key"
    path.write_bytes(_pem(kind))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=says) as refused:
        _load(path)
    assert str(refused.value).startswith("dollyd.toml: node.key: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "node.key"
    new_key(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"{mode:04o}.*chmod 0600"):
        _load(path)


def test_a_systemd_credential_is_one_for_a_command_beside_the_service_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dollyd.service" / "signing.pem"
    path.parent.mkdir()
    kid = new_key(path).kid
    path.chmod(0o440)
    with pytest.raises(ConfigError, match="read by others"):
        _load(path)
    monkeypatch.setattr("dollyd.daemon.host.secret_files._CREDENTIALS", str(tmp_path))
    assert _load(path) == kid


def test_a_systemd_credential_shows_its_acl_mask_as_group_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "node.key"
    kid = new_key(path).kid
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert _load(path) == kid
    path.chmod(0o444)
    with pytest.raises(ConfigError, match="read by others"):
        _load(path)


def test_a_missing_or_unreadable_key_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; make a key"):
        _load(tmp_path / "node.key")
    with pytest.raises(ConfigError, match="cannot be read"):
        _load(tmp_path)


def test_the_envelope_has_its_one_form() -> None:
    by = signer()
    envelope = by.sign(b'{"v":1}')
    assert list(json.loads(envelope)) == ["payload", "protected", "signature"]
    assert b" " not in envelope
    protected = json.loads(envelope)["protected"]
    header = b'{"alg":"EdDSA","kid":"%s","typ":"dolly-record/1"}' % by.kid.encode()
    assert base64.urlsafe_b64decode(protected + "==") == header


def test_the_thumbprint_is_that_of_rfc_8037() -> None:
    # RFC 8037 appendix A.1 to A.3.
    seed = base64.urlsafe_b64decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
    by = Signer(Ed25519PrivateKey.from_private_bytes(seed))
    assert by.jwk["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert by.kid == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_what_is_signed_verifies() -> None:
    by = signer()
    envelope = parse_envelope(by.sign(b'{"v":1,"name":"\xc3\xa9"}'))
    verify_envelope(envelope, keys_of_jwks([by.jwk]))
    assert envelope.payload == b'{"v":1,"name":"\xc3\xa9"}'


# RFC 9864 names the algorithm `Ed25519` and deprecates `EdDSA`; RFC 8037 verifiers know only the latter.
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
def test_another_library_verifies_our_envelope() -> None:
    by = signer()
    envelope = by.sign(b'{"v":1}')
    members = json.loads(envelope)
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": by.jwk["x"]})
    assert key.thumbprint() == by.kid
    assert joserfc_jws.deserialize_json(members, key, algorithms=["EdDSA"]).payload == b'{"v":1}'
    members["payload"] = members["payload"][:-1] + "A"
    with pytest.raises(Exception, match="bad_signature"):
        joserfc_jws.deserialize_json(members, key, algorithms=["EdDSA"])
