"""Secrets that exist only while the unit runs, and the files that systemd makes them of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import msgspec

from dollyd.daemon.doctor.unit import Unit
from dollyd.daemon.host.machine import Host
from dollyd.daemon.settings.load import Settings

_FOLDER = "/run/credentials/"
_SIGNING = ("key", "next_key", "trust")
_MQTT = ("password_file", "ca_file", "cert_file", "key_file")


def is_credential(path: str) -> bool:
    """Whether a path is that of a secret which systemd gives to the unit."""
    return path.startswith(_FOLDER)


def is_absent(path: str) -> bool:
    """Whether a path is a credential's that cannot be read now."""
    return is_credential(path) and not os.access(path, os.R_OK)


def absent(settings: Settings) -> Iterator[tuple[str, str]]:
    """Every credential of a configuration that cannot be read now: the setting's name and its path."""
    for name in _SIGNING:
        if is_absent(path := getattr(settings.signing, name)):
            yield f"signing.{name}", path
    for name in _MQTT:
        if is_absent(path := getattr(settings.mqtt, name)):
            yield f"mqtt.{name}", path


def source_of(path: str, unit: Unit, *kinds: str) -> str:
    """The file of which systemd makes a credential; empty where the unit names none (systemd.exec(5)).

    `kinds` are the unit's settings to look at, plain and encrypted sources where none is given.
    """
    wanted = path.rsplit("/", 1)[1]
    for load in chain.from_iterable(map(unit.all, kinds or ("LoadCredential", "LoadCredentialEncrypted"))):
        name, _, source = load.partition(":")
        if wanted == name:
            return source
        if wanted.startswith(f"{name}_"):  # of a folder each file is a credential
            return f"{source}/{wanted.removeprefix(f'{name}_')}"
    return ""


def from_sources(settings: Settings, unit: Unit, host: Host) -> Settings:
    """The same configuration with the sources of its credentials, where they are plain and can be read."""
    signing: dict[str, str] = {}
    mqtt: dict[str, str] = {}
    for key, path in absent(settings):
        section, name = key.split(".")
        source = source_of(path, unit, "LoadCredential")
        if source and os.access(host.path(source), os.R_OK):
            (signing if section == "signing" else mqtt)[name] = str(host.path(source))
    return replace(
        settings,
        signing=msgspec.structs.replace(settings.signing, **signing),
        mqtt=msgspec.structs.replace(settings.mqtt, **mqtt),
    )
