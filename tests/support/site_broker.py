"""A site's broker as shipped: TLS, client certificates, access list; on a throw-away authority."""

from __future__ import annotations

import datetime as dt
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support.broker import Mosquitto

from dollyd.daemon.brokers import authority
from dollyd.daemon.link.mqtt import MqttSettings

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
        self._authority = authority.Authority.new("site", dt.datetime.now(dt.UTC))
        self.ca_file = directory / "ca.crt"
        self.ca_file.write_bytes(self._authority.pair.certificate)

    def issue(self, name: str, hours: float = ALWAYS_HOURS) -> None:
        """`<name>.crt` and `<name>.key`, good for so many hours from now (or ended so many hours ago)."""
        now = dt.datetime.now(dt.UTC)
        until = now + dt.timedelta(hours=hours)
        now = min(now, until)
        if name == "broker":
            pair = self._authority.server(("127.0.0.1",), now, until)
        else:
            pair = self._authority.client(name, now, until)
        self._write(name, "key", pair.key)
        self._write(name, "crt", pair.certificate)

    def _write(self, name: str, kind: str, data: bytes) -> None:
        path = self.directory / f"{name}.{kind}"
        path.write_bytes(data)
        path.chmod(0o600 if kind == "key" else 0o644)


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
        read_by_debian(self.broker, included)

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


def install(broker: Mosquitto, setup: Path) -> Path:
    """Install what `dollyd broker-setup` has made as its own script does; gives the root that it is below.

    Debian's broker reads it at its next start, on the port of `broker`.
    """
    root = broker.directory / "root"
    script = ["sh", str(setup / "install-broker.sh")]
    subprocess.run(script, env={**os.environ, "DESTDIR": str(root)}, check=True)
    installed = root / "etc/mosquitto/conf.d/dollyd.conf"
    ours = (
        ("listener 8883", f"listener {broker.port} 127.0.0.1"),
        ("/etc/mosquitto/", f"{root}/etc/mosquitto/"),
        ("log_dest syslog", "log_dest stderr"),
    )
    installed.write_text(_replaced(installed.read_text("utf-8"), *ours))
    read_by_debian(broker, installed.parent)
    return root


def read_by_debian(broker: Mosquitto, included: Path) -> None:
    """Have the broker read Debian's own configuration, which includes that folder."""
    here = broker.directory
    changes = (
        ("/etc/mosquitto/conf.d", str(included)),
        ("/run/mosquitto/", f"{here}/"),
        ("/var/lib/mosquitto/", f"{here}/"),
        ("/var/log/mosquitto/", f"{here}/"),
    )
    owner = f"user {pwd.getpwuid(os.geteuid()).pw_name}\n"
    broker.configuration.write_text(owner + _replaced(DEBIAN, *changes))


def _replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text
