"""The table on the machine under test: a simulated wheel, the service, a listener; and what they saw."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.daemon import NODE, PROFILE, SITE, TABLE
from tools.system_test.machine import Machine, MachineError

from dollyd.wire.jws import parse_envelope

ROOT = Path(__file__).resolve().parents[2]
HOME = "/srv/rig"
PORTS = "/run/rig"
JOURNAL = "/var/lib/dollyd/journal.db"
CONFIG = "/etc/dollyd/dollyd.toml"
CREDENTIALS = "/run/credentials/dollyd.service/dollyd_"
"""Each file of /etc/dollyd/credentials, as the service has it."""
KEY = "/etc/dollyd/credentials/signing.pem"
PERIOD_MS = 100
"""Of the simulated wheel; a game takes about 4 s."""

WHEEL = f"""
[Unit]
Description=A simulated wheel at a pseudo-terminal, of the account that may open it
[Service]
User=dollyd
RuntimeDirectory=rig
Environment=PYTHONPATH={HOME}/lib
ExecStartPre=mkfifo {PORTS}/orders
ExecStart=/bin/sh -c 'exec /opt/dollyd/bin/python -B -m dollyd.simulators ss2 --compact --json \
  --period-ms {PERIOD_MS} --link {PORTS}/r1-wheel <>{PORTS}/orders'
StandardOutput=append:{HOME}/truth
[Install]
WantedBy=multi-user.target
"""
LISTENER = f"""
[Unit]
Description=Settlement, as far as listening goes
After=mosquitto.service
[Service]
ExecStart=mosquitto_sub -V mqttv311 -q 1 -c -i settlement -t dolly/v1/{SITE}/r1/record/#
StandardOutput=append:{HOME}/heard
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""
BROKER = "max_queued_messages 0\nautosave_interval 1\nautosave_on_changes true\n"


class Rig:
    """What the cases use: the machine, the table, and the records in the journal and on the wire."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.sh = machine.sh
        self._home = machine.root / HOME[1:]

    def bring(self, debs: list[Path]) -> None:
        """Lay simulators and packages beside the system; the packages themselves hold no simulators."""
        (self._home / "lib").mkdir(parents=True)
        shutil.copytree(
            ROOT / "src/dollyd", self._home / "lib/dollyd", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copyfile(Path(__file__).with_name("inside.py"), self._home / "inside.py")
        for deb in debs:
            shutil.copyfile(deb, self._home / deb.name)
        (self.machine.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        for name, text in (("wheel", WHEEL), ("listener", LISTENER)):
            (self.machine.root / f"etc/systemd/system/rig-{name}.service").write_text(text)

    def configure(self) -> None:
        """The table as a technician sets it up."""
        head = (
            f'site = "{SITE}"\nnode = "{NODE}"\n[journal]\npath = "{JOURNAL}"\nlow_mb = 20\nfloor_mb = 10\n'
            f'[signing]\nkey = "{CREDENTIALS}signing.pem"\n[mqtt]\nbrokers = ["localhost:1883"]\n'
        )
        table = TABLE.format(
            table="r1", variant="A", directory=PORTS, period_ms=2 * PERIOD_MS, silence_ms=3000
        )
        profile = PROFILE.format(hold_ms=0, unresolved_void_after_s=1)
        self.machine.write(CONFIG, head + table, owner="root:dollyd", mode=0o640)
        self.machine.write("/etc/dollyd/profile.toml", profile, owner="root:dollyd", mode=0o640)
        self.machine.write("/etc/mosquitto/conf.d/rig.conf", BROKER)
        self.sh("systemctl restart mosquitto && systemctl daemon-reload")

    def order(self, text: str) -> None:
        """Tell the simulated wheel."""
        self.sh(f"echo '{text}' >{PORTS}/orders")

    def pace_wheel(self, period_ms: int) -> None:
        """Have the wheel play slower or faster."""
        self.sh(
            f"sed -i 's/--period-ms [0-9]*/--period-ms {period_ms}/' /etc/systemd/system/rig-wheel.service"
        )
        self.sh("systemctl daemon-reload && systemctl restart rig-wheel")

    # --- what systemd says ---------------------------------------------------------------------------

    def unit(self, *names: str) -> list[str]:
        """Properties of the service, as systemd has them."""
        said = self.sh(f"systemctl show dollyd {' '.join(f'-p {name}' for name in names)}")
        told = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        return [told.get(name, "") for name in names]

    def logged(self, since: str, text: str) -> int:
        """Lines of the service's log since a moment that hold a text."""
        log = self.sh(f"journalctl -u dollyd --since '{since}' -o cat --no-pager")
        return sum(text in line for line in log.splitlines())

    def now(self) -> str:
        """A moment for `logged`."""
        return self.sh("date '+%F %T'").strip()

    # --- what was decided, heard, and true -----------------------------------------------------------

    def records(self) -> list[dict[str, Any]]:
        """Every record of the journal, in the order of writing."""
        reader = f"PYTHONPATH={HOME}/lib /opt/dollyd/bin/python -B {HOME}/inside.py {JOURNAL}"
        return [json.loads(line) for line in self.sh(reader).splitlines()]

    def heard(self) -> set[tuple[str, int]]:
        """Chain and number of every record that came over MQTT."""
        return {(record["chain"], record["seq"]) for record in map(payload, self._lines("heard"))}

    def results_heard(self) -> int:
        """Different results that came over MQTT."""
        records = map(payload, self._lines("heard"))
        return len({(one["chain"], one["round"]) for one in records if one["kind"] == "result"})

    def truth(self) -> list[str]:
        """The numbers of the wheel's games that were played to their end."""
        games = map(json.loads, self._lines("truth"))
        return [game["pocket"].strip() for game in games if game["outcome"] == "completed"]

    def _lines(self, name: str) -> list[str]:
        path = self._home / name
        text = path.read_text() if path.exists() else ""
        return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]

    # --- waiting -------------------------------------------------------------------------------------

    def until(self, what: str, true: Callable[[], object], within_s: float) -> float:
        """Wait for something; the seconds it took. Raises `MachineError` where it does not happen."""
        began = time.monotonic()
        while not true():
            if time.monotonic() > began + within_s:
                log = self.sh("journalctl -u dollyd -o cat --no-pager | tail -n 15", check=False)
                raise MachineError(f"not within {within_s:.0f} s: {what}\n{log}")
            time.sleep(0.1)
        return time.monotonic() - began

    def play(self, results: int = 2, within_s: float = 40.0) -> float:
        """Wait until so many more results came over MQTT; the seconds it took."""
        wanted = self.results_heard() + results
        return self.until(f"{results} more results", lambda: self.results_heard() >= wanted, within_s)

    def until_round_in_play(self) -> int:
        """Wait until the ball runs; the number of the round."""
        self.until("a round", lambda: self.records()[-1]["kind"] in ("round", "bets-closed"), 30)
        return int(self.records()[-1]["round"])


def payload(envelope: str) -> dict[str, Any]:
    """What an envelope says; the signature is checked by `dollyd verify`."""
    return dict(json.loads(parse_envelope(envelope.strip().encode()).payload))
