"""The broker of the demo: Mosquitto where it is installed, else the embedded one (amqtt).

Mosquitto keeps subscriptions and queues on disk, as a casino's would, so it remembers its clients after a
`kill -9`. The embedded one forgets everything; see `embedded_broker`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SUBSCRIBER = "demo-cashier"
"""Client id of the demo's subscriber."""


class NoBrokerError(Exception):
    """The broker that was asked for is not installed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A kind of broker. `command` writes what it needs into a directory, and gives its command line."""

    name: str
    protocol: str
    """MQTT version for the daemon's configuration."""
    command: Callable[[Path, int], list[str]]


def choose(wanted: str | None) -> Broker:
    """The broker called `wanted`, or the best one here. Raises `NoBrokerError`."""
    binary = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if binary is not None and wanted != "embedded":
        return Broker("Mosquitto", "5", lambda directory, port: _mosquitto(binary, directory, port))
    if wanted == "mosquitto":
        raise NoBrokerError("mosquitto is not installed: apt-get install mosquitto, or --broker embedded")
    if importlib.util.find_spec("amqtt") is None:
        raise NoBrokerError("no broker is installed: apt-get install mosquitto, or pip install amqtt")
    return Broker("amqtt (embedded)", "3.1.1", _embedded)


def _mosquitto(binary: str, directory: Path, port: int) -> list[str]:
    configuration = directory / "mosquitto.conf"
    lines = (
        f"user {pwd.getpwuid(os.geteuid()).pw_name}",
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        "persistence true",
        f"persistence_location {directory}/",
        "autosave_on_changes true",
        "autosave_interval 1",
    )
    configuration.write_text("\n".join(lines) + "\n", "utf-8")
    return [binary, "-c", str(configuration)]


def _embedded(_directory: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "dollyd.simulators.demo.embedded_broker", str(port)]
