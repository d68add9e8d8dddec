"""The settings of links to the brokers, with the files that they name: the node's, and those of its desk."""

from __future__ import annotations

from pathlib import Path

from dollyd.daemon.host.secret_files import read_secret
from dollyd.daemon.link.address import parse_broker
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.sections import DeskSection, MqttSection
from dollyd.daemon.settings.load import Settings
from dollyd.wire.errors import ConfigError
from dollyd.wire.files import cure, read_file

ACK_DEADLINE_S = 10
IN_FLIGHT_MAX = 20


def mqtt_settings(settings: Settings) -> MqttSettings:
    """The node's links; reads the password. Raises `ConfigError`."""
    node = settings.mqtt.client_id or f"dollyd-{settings.site}-{settings.node}"
    return _link(settings, "mqtt", settings.mqtt, node)


def desk_settings(settings: Settings) -> MqttSettings:
    """The links of people who give orders: by `[desk]`, else as the node. They choose their own client id.

    Of the node's secrets nothing is read where `[desk]` names others. Raises `ConfigError`.
    """
    if settings.desk == DeskSection():
        return mqtt_settings(settings)
    return _link(settings, "desk", settings.desk, "")


def _link(settings: Settings, name: str, user: MqttSection | DeskSection, client_id: str) -> MqttSettings:
    """A link to the brokers of `[mqtt]`; as whom, the section `name` says."""
    section, file = settings.mqtt, settings.file
    for broker in section.brokers:
        try:
            parse_broker(broker)
        except ValueError as error:
            remedy = "give host:port or mqtts://host:port"
            raise ConfigError(file, "mqtt.brokers", f"{broker!r}: {error}", remedy) from error
    password = None
    if user.password_file:
        key = f"{name}.password_file"
        try:
            password = _secret(file, key, user.password_file).decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(
                file, key, "is no text in UTF-8", "name a file that holds the password"
            ) from error
    for key, path, read in (
        ("mqtt.ca_file", section.ca_file, _read),
        (f"{name}.cert_file", user.cert_file, _read),
        (f"{name}.key_file", user.key_file, _secret),
    ):
        if path:
            read(file, key, path)
    return MqttSettings(
        brokers=section.brokers,
        client_id=client_id,
        protocol=section.protocol,
        username=user.username or None,
        password=password,
        ca_file=section.ca_file or None,
        cert_file=user.cert_file or None,
        key_file=user.key_file or None,
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
