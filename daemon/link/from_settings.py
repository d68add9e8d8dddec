"""The settings of links to the brokers, with the files that they name: the node's, and those of its desk."""

from __future__ import annotations

from pathlib import Path

from dollyd.daemon.host.secret_files import read_secret
from dollyd.daemon.link.address import parse_broker
from dollyd.daemon.link.certificates import is_pair
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.settings.faults import Faults
from dollyd.daemon.settings.load import Settings
from dollyd.daemon.settings.sections import DeskSection, MqttSection
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
    section, faults = settings.mqtt, Faults(settings.file)
    tls = [broker for broker in section.brokers if _is_tls(broker, faults)]
    password = None
    if user.password_file:
        with faults.kept():
            password = _password(settings.file, f"{name}.password_file", user.password_file)
    files = {
        "mqtt.ca_file": section.ca_file,
        f"{name}.cert_file": user.cert_file,
        f"{name}.key_file": user.key_file,
    }
    for key, path in files.items():
        if path:
            with faults.kept():
                (_secret if key.endswith("key_file") else _read)(settings.file, key, path)
    unused = [key for key, path in files.items() if path and not tls]
    if unused and not faults.at("mqtt.brokers"):
        remedy = "write mqtts://HOST:PORT in mqtt.brokers, or leave it out"
        faults.add(unused[0], "never used: no broker of mqtt.brokers is reached by TLS", remedy)
    if not faults.found and user.cert_file and not is_pair(user.cert_file, user.key_file or None):
        problem = f"{user.cert_file} and {user.key_file or 'the key in it'} are not of one pair"
        faults.add(f"{name}.cert_file", problem, "name the key that belongs to this certificate")
    faults.refuse()
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


def _is_tls(broker: str, faults: Faults) -> bool:
    try:
        return parse_broker(broker).tls
    except ValueError as error:
        faults.add("mqtt.brokers", f"{broker!r}: {error}", "give host:port or mqtts://host:port")
        return False


def _password(file: str, key: str, path: str) -> str:
    try:
        return _secret(file, key, path).decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(file, key, "is no text in UTF-8", "name a file that holds the password") from error


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
