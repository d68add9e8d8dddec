"""`dollyd check`: everything that can be known to be wrong before the daemon starts."""

from __future__ import annotations

import os
from pathlib import Path

from dollyd.daemon.app import mqtt_settings
from dollyd.daemon.cli.options import ConfigFile
from dollyd.daemon.errors import ConfigError
from dollyd.daemon.ports import check_port
from dollyd.daemon.settings import Settings, load
from dollyd.daemon.signing import load_signer


def check(config: ConfigFile) -> None:
    """Check configuration, rules, ports, keys and paths; exit 78 and one line where one of them is wrong.

    Changes nothing and opens no port, so it may be run beside a running daemon.
    """
    settings = load(config)
    signer = load_signer(Path(settings.signing.key), config_file=settings.file, key="signing.key")
    mqtt = mqtt_settings(settings)
    check_journal(settings)
    for table in settings.tables.values():
        for device in table.devices.values():
            check_port(settings.file, device, must_exist=True)
    print(f"{config}: good")
    print(f"  site {settings.site}, node {settings.node}, key {signer.kid}")
    print(f"  brokers {', '.join(mqtt.brokers)} (MQTT {mqtt.protocol})")
    for name, table in settings.tables.items():
        rules = table.setup
        print(
            f"  table {name}: {rules.game.name} {rules.variant_name}, {rules.rulebook.id}, {rules.profile.id}"
        )
        for device in table.devices.values():
            print(f"    {device.section.role}: {device.driver.name} on {device.section.port}")


def check_journal(settings: Settings) -> None:
    """Refuse a journal that cannot be written, without touching it. Raises `ConfigError`."""
    path = Path(settings.journal.path)
    target = path if path.exists() else path.parent
    if path.is_dir() or not target.exists() or not os.access(target, os.W_OK):
        remedy = "name a writable path on a local disk"
        raise ConfigError(settings.file, "journal.path", f"{path} cannot be written", remedy)
