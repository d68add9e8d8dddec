"""A site's broker as shipped: TLS, client certificates, access list; on a throw-away authority."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.broker import Mosquitto

from dollyd.daemon.mqtt import MqttSettings

CONFIG = Path(__file__).parents[2] / "config"
ALWAYS_HOURS = 24 * 365
DEBIAN = """\
pid_file /run/mosquitto/mosquitto.pid

persistence true
persistence_location /var/lib/mosquitto/

log_dest file /var/log/mosquitto/mosquitto.log

include_dir /etc/mosquitto/conf.d
"""
"""/etc/mosquitto/mosquitto.conf of Debian 12 without its comments."""


class Authority:
    """A certificate authority in a directory; its own certificate is `ca.crt`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("site")
        self.ca_file = directory / "ca.crt"
        self.ca_file.write_bytes(_pem(self._sign("site", self._key.public_key(), ALWAYS_HOURS, ca=True)))

    def issue(self, name: str, hours: float = ALWAYS_HOURS) -> None:
        """`<name>.crt` and `<name>.key`, good for so many hours from now (or ended so many hours ago)."""
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(name, "key", _key_pem(key))
        self._write(name, "crt", _pem(self._sign(name, key.public_key(), hours, ca=False)))

    def _write(self, name: str, kind: str, data: bytes) -> None:
        path = self.directory / f"{name}.{kind}"
        path.write_bytes(data)
        path.chmod(0o600 if kind == "key" else 0o644)

    def _sign(self, name: str, key: ec.EllipticCurvePublicKey, hours: float, *, ca: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=2))
            .not_valid_after(now + dt.timedelta(hours=hours))
            .add_extension(address, critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


@dataclass(frozen=True, slots=True)
class Site:
    """The broker of the shipped files, which is not started, and its authority."""

    broker: Mosquitto
    authority: Authority

    @property
    def address(self) -> str:
        return f"mqtts://{self.broker.address}"

    def configure(self, *changes: tuple[str, str]) -> None:
        """Install the shipped configuration as its first line says, with this site's port, paths and changes.

        It is read as Debian reads it: from the folder that Debian's own configuration includes.
        """
        here = self.broker.directory
        included = here / "conf.d"
        included.mkdir(exist_ok=True)
        ours = (
            ("listener 8883", f"listener {self.broker.port} 127.0.0.1"),
            ("/etc/mosquitto/certs/site-ca.crt", str(self.authority.ca_file)),
            ("/etc/mosquitto/certs/broker", f"{here}/broker"),
            ("/etc/mosquitto/dollyd.acl", f"{CONFIG}/mosquitto.acl"),
            ("log_dest syslog", "log_dest stderr"),
            ("sys_interval 10", "sys_interval 1"),
        )
        shipped = (CONFIG / "mosquitto.conf").read_text("utf-8")
        (included / "dollyd.conf").write_text(_replaced(shipped, *ours, *changes))
        debian = (
            ("/etc/mosquitto/conf.d", str(included)),
            ("/run/mosquitto/", f"{here}/"),
            ("/var/lib/mosquitto/", f"{here}/"),
            ("/var/log/mosquitto/", f"{here}/"),
        )
        owner = f"user {pwd.getpwuid(os.geteuid()).pw_name}\n"
        self.broker.configuration.write_text(owner + _replaced(DEBIAN, *debian))

    def settings(self, name: str, protocol: Literal["5", "3.1.1"] = "5") -> MqttSettings:
        """What a client of that name is told; its certificate is issued where it has none."""
        here = self.broker.directory
        if not (here / f"{name}.crt").exists():
            self.authority.issue(name)
        return MqttSettings(
            brokers=(self.address,),
            client_id=f"client-{name}",
            protocol=protocol,
            ca_file=str(self.authority.ca_file),
            cert_file=str(here / f"{name}.crt"),
            key_file=str(here / f"{name}.key"),
            ack_deadline_s=5,
        )


def site_of(broker: Mosquitto) -> Site:
    """A site around a broker that has its directory and is not started."""
    site = Site(broker, Authority(broker.directory))
    site.authority.issue("broker")
    site.configure()
    return site


def _replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
