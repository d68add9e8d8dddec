"""A certificate authority of a site: who may come to its broker, and by which name."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = dt.timedelta(days=3650)
_BEFORE = dt.timedelta(days=1)
"""A machine whose clock is behind takes a new certificate all the same."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, each as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for servers and clients (ECDSA, P-256)."""

    def __init__(self, pair: Pair) -> None:
        """Take up an authority. Raises ValueError where the two are no authority's certificate and key."""
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("no key of an elliptic curve")  # noqa: TRY004  what is wrong is the file
        if key.public_key() != self._certificate.public_key():
            raise ValueError("certificate and key do not belong together")
        self._key = key

    @classmethod
    def new(cls, name: str, now: dt.datetime) -> Authority:
        """Another authority, good for ten years."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = _builder(subject, subject, key.public_key(), now, now + AUTHORITY_LIFE)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        made = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(Pair(_pem(made), _key_pem(key)))

    def client(self, name: str, now: dt.datetime, until: dt.datetime) -> Pair:
        """A user of the broker, called by the common name."""
        return self._issue(name, now, until, ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def server(self, hosts: Iterable[str], now: dt.datetime, until: dt.datetime) -> Pair:
        """A broker that is reached under these names and addresses."""
        names = tuple(hosts)
        return self._issue(names[0], now, until, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def _issue(
        self,
        name: str,
        now: dt.datetime,
        until: dt.datetime,
        purpose: x509.ObjectIdentifier,
        hosts: tuple[str, ...],
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        origin = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
        builder = (
            _builder(_name(name), issuer.subject, key.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(origin, critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False
            )
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: dt.datetime,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(until)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
