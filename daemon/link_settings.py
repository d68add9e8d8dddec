"""The settings of the node's links to its brokers, with the files that they name."""

from __future__ import annotations

from pathlib import Path

from dollyd.daemon.brokers.address import parse_broker
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.files import cure, read_file
from dollyd.daemon.mqtt import MqttSettings
from dollyd.daemon.secret_files import read_secret
from dollyd.daemon.settings import Settings

ACK_DEADLINE_S = 10
IN_FLIGHT_MAX = 20


def mqtt_settings(settings: Settings) -> MqttSettings:
    """The link's settings; reads the password. Raises `ConfigError`."""
    section, file = settings.mqtt, settings.file
    for broker in section.brokers:
        try:
            parse_broker(broker)
        except ValueError as error:
            remedy = "give host:port or mqtts://host:port"
            raise ConfigError(file, "mqtt.brokers", f"{broker!r}: {error}", remedy) from error
    password = None
    if section.password_file:
        try:
            password = _secret(file, "mqtt.password_file", section.password_file).decode("utf-8").strip()
        except UnicodeDecodeError as error:
            remedy = "name a file that holds the password"
            raise ConfigError(file, "mqtt.password_file", "is no text in UTF-8", remedy) from error
    for key, read in (("ca_file", _read), ("cert_file", _read), ("key_file", _secret)):
        if path := getattr(section, key):
            read(file, f"mqtt.{key}", path)
    return MqttSettings(
        brokers=section.brokers,
        client_id=section.client_id or f"dollyd-{settings.site}-{settings.node}",
        protocol=section.protocol,
        username=section.username or None,
        password=password,
        ca_file=section.ca_file or None,
        cert_file=section.cert_file or None,
        key_file=section.key_file or None,
        keepalive_s=section.keepalive_s,
        ack_deadline_s=ACK_DEADLINE_S,
        in_flight_max=IN_FLIGHT_MAX,
    )


def _read(file: str, key: str, path: str) -> bytes:
    """What is in a file that the configuration names. Raises `ConfigError`."""
    try:
        return read_file(Path(path))
    except OSError as error:
        remedy = cure(error, "name an existing file or leave it out")
        raise ConfigError(file, key, f"{path}: {error.strerror}", remedy) from error


def _secret(file: str, key: str, path: str) -> bytes:
    """The same of a secret file."""
    return read_secret(Path(path), config_file=file, key=key, remedy="name an existing file or leave it out")
