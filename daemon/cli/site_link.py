"""How a person reaches a site: by the daemon's configuration, or by a broker and the site's name."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dollyd.daemon.cli.given_keys import keys_for_verification
from dollyd.daemon.cli.options import secret_file
from dollyd.daemon.keys.trust_file import read_trust
from dollyd.daemon.link.from_settings import desk_settings
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.daemon.settings.load import Settings, load
from dollyd.wire.errors import ConfigError
from dollyd.wire.key_source import KeySource, source_of
from dollyd.wire.topics import NO_TABLES, check_name


@dataclass(frozen=True, slots=True)
class SiteLink:
    """Brokers and site; `settings` where a configuration was given."""

    mqtt: MqttSettings
    site: str
    settings: Settings | None


def site_link(
    command: str, config: Path | None, brokers: list[str], site: str, tls: Mapping[str, str]
) -> SiteLink:
    """By options of `dollyd COMMAND`; `tls`: `ca_file`, `cert_file`, `key_file`. Raises `ConfigError`."""
    if (config is None) == (not brokers):
        remedy = "give --config, or --broker and --site"
        raise ConfigError(f"dollyd {command}", "--broker", "neither or both given", remedy)
    mqtt, settings = MqttSettings(tuple(brokers), ""), None
    if config is not None:
        settings = load(config)
        mqtt, site = desk_settings(settings), settings.site
    check_option(command, "--site", site)
    mqtt = replace(
        mqtt,
        client_id=f"dollyd-{command}-{secrets.token_hex(6)}",
        ca_file=tls["ca_file"] or mqtt.ca_file,
        cert_file=tls["cert_file"] or mqtt.cert_file,
        key_file=secret_file("--key-file", tls["key_file"]) or mqtt.key_file,
    )
    return SiteLink(mqtt, site, settings)


def check_option(command: str, option: str, name: str) -> None:
    """Refuse what can be no level of a topic. Raises `ConfigError`."""
    if not check_name(name) or name in NO_TABLES:
        remedy = "take 1 to 40 of a-z, 0-9 and -"
        raise ConfigError(f"dollyd {command}", option, f"{name!r} is no name", remedy)


def keys_of_site(config: Path | None, jwks: Path | None, trust: Path | None, root: str) -> KeySource | None:
    """Who is trusted to sign: as given, else the trust file that the configuration names; None: nobody is."""
    given = keys_for_verification(jwks, trust, root)
    if given is None and config is not None:
        settings = load(config)
        if settings.signing.trust:
            given = read_trust(
                Path(settings.signing.trust), settings.signing.root, settings.file, "signing.trust"
            )
    return None if given is None else source_of(given)
