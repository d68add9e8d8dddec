"""What is done to the service, in this order, and what must come of it. Each case gives what it saw.

A case begins and ends with the service at play. It raises `MachineError` or `Unexpected` where it sees what
it must not.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import TypeAlias

from tools.system_test.machine import MachineError
from tools.system_test.rig import CONFIG, HOME, JOURNAL, KEY, PERIOD_MS, SITE, Rig

from dollyd.client.witness.witness import WITNESS_TYP
from dollyd.wire.jws import parse_envelope
from dollyd.wire.topics import Topics

Case: TypeAlias = Callable[[Rig], str]
STOP_S = 5.0
"""A stop takes no longer, whatever a device does."""
SECURITY_MAX = 2.0
FLOOD_LINES = 1_000_000
SLOW_MS = 250
"""Status period of a wheel that pauses for six seconds between two games."""


class Unexpected(Exception):  # noqa: N818  it reads as a finding
    """The case went another way than it must."""


def expect(true: object, seen: str) -> None:
    """Raise `Unexpected` with what was seen instead."""
    if not true:
        raise Unexpected(seen)


# --- start ---------------------------------------------------------------------------------------


def ready(rig: Rig) -> str:
    """READY needs neither broker nor devices."""
    rig.sh("systemctl stop mosquitto rig-wheel dollyd")
    began = time.monotonic()
    rig.sh("systemctl start dollyd")
    took = time.monotonic() - began
    kind, state = rig.unit("Type", "ActiveState")
    expect(kind.startswith("notify") and state == "active", f"Type={kind} {state}")
    rig.sh("systemctl start mosquitto rig-wheel")
    rig.play(1)
    return f"Type={kind}, active {took:.1f} s after the start, no broker, no device; then a result"


def results(rig: Rig) -> str:
    """What the wheel played is what MQTT says."""
    took = rig.play(3)
    rig.until("every record heard", lambda: not unheard(rig), 10)
    return f"3 results in {took:.0f} s; {len(rig.heard())} records heard, all of the journal"


def security(rig: Rig) -> str:
    """The sandbox, as systemd rates it. The machine has no man(1) to look for the manual page with."""
    said = rig.sh("systemd-analyze security dollyd --no-pager", check=False)
    found = re.search(r"exposure level for dollyd.service: ([\d.]+)", said)
    exposure = float(found[1]) if found else 10.0
    complaints = rig.sh("systemd-analyze verify /lib/systemd/system/dollyd.service", check=False).strip()
    ours = [line for line in complaints.splitlines() if "dollyd" in line and "man dollyd" not in line]
    expect(exposure <= SECURITY_MAX and not ours, f"exposure {exposure}; {ours}")
    return f"exposure {exposure} (at most {SECURITY_MAX}); systemd-analyze verify says nothing"


# --- the daemon in trouble -----------------------------------------------------------------------


def hung(rig: Rig) -> str:
    """A loop that hangs is found by the watchdog."""
    limit, pid, restarts = rig.unit("WatchdogUSec", "MainPID", "NRestarts")
    expect(limit not in ("", "0", "infinity"), f"WatchdogUSec={limit}")
    since = rig.now()
    rig.sh(f"kill -STOP {pid}")
    took = rig.until("a restart", lambda: int(rig.unit("NRestarts")[0]) > int(restarts), 90)
    log = rig.sh(f"journalctl -u dollyd --since '{since}' -o cat --no-pager")
    expect("Watchdog timeout" in log, log[-300:])
    again = rig.play(1)
    how = "SIGABRT, then SIGKILL, for it is stopped" if "SIGKILL" in log else "SIGABRT"
    return (
        f"WatchdogSec {limit}: {how}; started again {took:.0f} s after the hang, a result {again:.0f} s later"
    )


def killed(rig: Rig) -> str:
    """Kill -9 in a round: it is recorded, and play goes on."""
    number = rig.until_round_in_play()
    restarts = int(rig.unit("NRestarts")[0])
    rig.sh("systemctl kill --signal=KILL dollyd")
    took = rig.until("a restart", lambda: int(rig.unit("NRestarts")[0]) > restarts, 30)
    again = rig.play(1)
    return f"again after {took:.1f} s, a result {again:.0f} s later; round {number}: {story(rig, number)}"


def blocked_device(rig: Rig) -> str:
    """A port that takes nothing, and a device that is stopped: the stop is as quick."""
    rig.order("fault port-jammed")
    rig.sh("systemctl kill --signal=STOP rig-wheel")
    began = time.monotonic()
    rig.sh("systemctl stop dollyd")
    took = time.monotonic() - began
    (result,) = rig.unit("Result")
    rig.sh("systemctl kill --signal=CONT rig-wheel && systemctl restart rig-wheel && systemctl start dollyd")
    rig.play(1)
    expect(took < STOP_S and result == "success", f"stopped in {took:.1f} s, {result}")
    return f"stopped in {took:.1f} s (at most {STOP_S:.0f}), result {result}"


# --- the operator's mistakes ---------------------------------------------------------------------


def wrong_configuration(rig: Rig) -> str:
    """Exit 78, one line, and no restart."""
    rig.sh(f"cp -p {CONFIG} {CONFIG}.good && sed -i '1i nonsense = 1' {CONFIG}")
    (before,) = rig.unit("NRestarts")
    rig.sh("systemctl restart dollyd", check=False)
    time.sleep(6)
    status, state, restarts = rig.unit("ExecMainStatus", "ActiveState", "NRestarts")
    line = rig.sh("journalctl -u dollyd -o cat --no-pager | grep nonsense | tail -n 1").strip()
    rig.sh(f"mv {CONFIG}.good {CONFIG} && systemctl reset-failed dollyd && systemctl start dollyd")
    rig.play(1)
    seen = f"exit {status}, {state}, {int(restarts or 0)} restarts in 6 s: {line}"
    expect(status == "78" and state == "failed" and int(restarts) <= int(before), seen)
    return seen


def no_credential(rig: Rig) -> str:
    """The key is missing, then the whole directory: no start without them, and one line that says so."""
    seen = []
    for missing in (KEY, KEY.rpartition("/")[0]):
        rig.sh(f"systemctl stop dollyd && mv {missing} {missing}.away")
        rig.sh("systemctl start dollyd", check=False)
        time.sleep(6)
        status, state, sub = rig.unit("ExecMainStatus", "ActiveState", "SubState")
        line = rig.sh("journalctl -u dollyd -o cat --no-pager -n 40 | grep -i credential | tail -n 1").strip()
        rig.sh(f"mv {missing}.away {missing}")
        back = "back by itself"
        if state == "failed":
            rig.sh("systemctl reset-failed dollyd && systemctl start dollyd")
            back = "started by hand"
        expect(state != "active", f"started without {missing}")
        took = rig.until("active", lambda: rig.unit("ActiveState")[0] == "active", 90)
        rig.play(1)
        seen.append(f"{missing}: exit {status}, {state} ({sub}), {line}; {back} {took:.1f} s after")
    return "; ".join(seen)


# --- what is around it ---------------------------------------------------------------------------


def journald_flood(rig: Rig) -> str:
    """Somebody floods the log: evidence is not in logs, so nothing is lost."""
    before = len(rig.truth())
    rig.sh(f"systemd-run --quiet --unit=rig-flood sh -c 'yes flooded | head -n {FLOOD_LINES}'")
    took = rig.play(3, within_s=90)
    rig.until("every record heard", lambda: not unheard(rig), 20)
    kept = rig.sh("journalctl -u rig-flood -o cat --no-pager | grep -c flooded", check=False).strip()
    state = rig.unit("ActiveState", "NRestarts")[0]
    rig.sh("systemctl stop rig-flood", check=False)
    expect(state == "active", state)
    played = len(rig.truth()) - before
    return (
        f"{FLOOD_LINES} lines, of which the log kept {kept}; {played} games meanwhile, "
        f"3 results in {took:.0f} s, no record missing"
    )


def broker_restarted(rig: Rig) -> str:
    """The broker as a service: restarted twice in play, then away."""
    (pid,) = rig.unit("MainPID")
    for games in (
        1,
        3,
    ):  # three links in a row that live less than 10 s look like a second client of our name
        rig.sh("systemctl restart mosquitto")
        rig.play(games)
    rig.sh("systemctl stop mosquitto")
    time.sleep(5)
    rig.sh("systemctl start mosquitto")
    rig.play(2)
    rig.until("every record heard", lambda: not unheard(rig), 30)
    expect(rig.unit("MainPID")[0] == pid, "the daemon was restarted")
    return f"2 restarts and 5 s without: same process, {len(rig.heard())} records heard, none missing"


def disk_full(rig: Rig) -> str:
    """The state directory on a small file system that fills up in play."""
    rig.sh("systemctl stop dollyd && mount -t tmpfs -o size=48m,mode=0750 tmpfs /var/lib/dollyd")
    try:
        rig.sh("chown dollyd:dollyd /var/lib/dollyd && systemctl start dollyd")
        rig.play(1)
        restarts = int(rig.unit("NRestarts")[0])
        rig.sh("head -c 64M /dev/zero >/var/lib/dollyd/ballast 2>&1", check=False)
        time.sleep(12)
        died = int(rig.unit("NRestarts")[0]) - restarts
        state, sub = rig.unit("ActiveState", "SubState")
        rig.sh("rm /var/lib/dollyd/ballast")
        took = rig.play(2, within_s=60)
        verdict = verify(rig)
        incidents = [one["body"]["what"] for one in rig.records() if one["kind"] == "incident"]
    finally:
        rig.sh("systemctl stop dollyd; umount /var/lib/dollyd")
        rig.sh("systemctl reset-failed dollyd; systemctl start dollyd")
    rig.play(1)
    return (
        f"full for 12 s: {state}/{sub}, ended {died} times; 2 results {took:.0f} s after there was room; "
        f"{verdict}; incidents {', '.join(sorted(set(incidents))) or 'none'}"
    )


def reload(rig: Rig) -> str:
    """SIGHUP in play: same process, no round touched."""
    (pid,) = rig.unit("MainPID")
    since, before = rig.now(), kinds(rig)
    rig.until_round_in_play()
    rig.sh("systemctl reload dollyd 2>&1 || systemctl kill --signal=HUP dollyd")
    rig.play(2)
    (after,) = rig.unit("MainPID")
    new = kinds(rig).get("unresolved", 0) - before.get("unresolved", 0)
    lines = rig.logged(since, "event=reloaded")
    expect(pid == after and new == 0 and lines, f"{pid} {after}, {new} unresolved, {lines} lines")
    return f"same process, logged once it was done, 2 results, no round unresolved ({lines} line)"


def witness(rig: Rig) -> str:
    """A consumer as a service, by the unit among the examples: it countersigns the checkpoint of a stop."""
    unit, key = "dollyd-consumer@witness", "/etc/dollyd/credentials/witness.pem"
    rig.sh("cp /usr/share/doc/dollyd/examples/dollyd-consumer@.service /etc/systemd/system/")
    rig.sh(f"dollyd keys new {key} && dollyd keys show {KEY} >/etc/dollyd/nodes.json")
    rig.sh("chgrp dollyd /etc/dollyd/nodes.json && chmod 640 /etc/dollyd/nodes.json")
    arguments = (
        f"--broker localhost:1883 --site {SITE} --name w1 --keys /etc/dollyd/nodes.json --state . "
        f"--key /run/credentials/{unit}.service/dollyd_witness.pem"
    )
    rig.machine.write("/etc/dollyd/witness.env", f"ARGUMENTS={arguments}\n")
    rig.sh(f"systemctl daemon-reload && systemctl start {unit}")
    rig.play(1)
    rig.sh("systemctl restart dollyd")
    envelope = rig.sh(f"mosquitto_sub -C 1 -W 20 -q 1 -t {Topics(SITE).witness('r1', 'w1')}")
    said = json.loads(parse_envelope(envelope.strip().encode(), WITNESS_TYP).payload)
    rig.sh(f"systemctl stop {unit} && rm {key} /etc/systemd/system/dollyd-consumer@.service")
    rig.sh("systemctl daemon-reload")
    rig.play(1)
    expect(said["verdict"] == "consistent", str(said))
    return f"{said['witness']} saw records {said['from']} to {said['seq']}: {said['verdict']}"


# --- the life of the package ---------------------------------------------------------------------


def upgrade(rig: Rig, deb: str) -> str:
    """A new version while the wheel plays on: it takes over in a pause, and no game is lost."""
    rig.pace_wheel(SLOW_MS)  # as a real one: some seconds between two games
    rig.play(1)
    games, before = len(rig.truth()), kinds(rig)
    rounds = before["result"]
    rig.until_round_in_play()
    (pid,) = rig.unit("MainPID")
    began = time.monotonic()
    said = rig.sh(f"apt-get install --yes {HOME}/{deb} 2>&1", within_s=400)
    took = time.monotonic() - began
    expect(rig.unit("MainPID")[0] != pid, f"the old version is still at work: {said[-600:]}")
    rig.play(2, within_s=60)
    rig.until("every record heard", lambda: not unheard(rig), 20)
    numbers = [one["body"]["outcome"]["pocket"] for one in rig.records() if one["kind"] == "result"][rounds:]
    truth = rig.truth()[games:]
    after = kinds(rig)
    ends = {kind: after.get(kind, 0) - before.get(kind, 0) for kind in ("unresolved", "void", "gap")}
    both = min(len(truth), len(numbers))  # a game may have ended between the two looks
    seen = (
        f"{took:.0f} s with the wait for a pause; the wheel said {' '.join(truth)}, "
        f"the results {' '.join(numbers)}; {ends}"
    )
    rig.pace_wheel(PERIOD_MS)
    expect(truth[:both] == numbers[:both] and not ends["unresolved"], seen)
    version = rig.sh("dpkg-query -W -f '${Version}' dollyd")
    return f"to {version} in {seen}"


def reboot(rig: Rig) -> str:
    """An orderly reboot in a round."""
    for _ in range(3):  # the round may end before the machine does
        number = rig.until_round_in_play()
        took = rig.machine.reboot()
        rig.play(1)
        told = story(rig, number)
        if "unresolved" in told:
            return f"up {took:.0f} s later; round {number}: {told}"
    raise Unexpected(told)


def power_cut(rig: Rig) -> str:
    """All processes gone at once in a round."""
    number = rig.until_round_in_play()
    rig.machine.cut()
    took = rig.machine.boot()
    rig.play(1)
    told = story(rig, number)
    expect("unresolved" in told, told)
    return f"up {took:.0f} s later; round {number}: {told}"


def whole_journal(rig: Rig) -> str:
    """After all that."""
    rig.sh("systemctl stop rig-wheel")
    time.sleep(2)
    rig.until("every record heard", lambda: not unheard(rig), 20)
    finals = [(one["chain"], one["round"]) for one in rig.records() if one["kind"] in ("result", "void")]
    expect(len(finals) == len(set(finals)), "a round with two ends")
    rig.sh("systemctl start rig-wheel")
    return (
        f"{verify(rig)}; {len(finals)} rounds, one end each; {len(rig.heard())} records heard, none missing"
    )


def remove(rig: Rig) -> str:
    """Removed, and installed again: the chain goes on."""
    chain = rig.records()[-1]["chain"]
    rig.sh("apt-get remove --yes dollyd 2>&1")
    left = rig.sh(
        "ls -d /opt/dollyd /usr/bin/dollyd /lib/systemd/system/dollyd.service 2>/dev/null", check=False
    )
    kept = rig.sh(f"ls {CONFIG} {KEY} {JOURNAL}").split()
    expect(not left and len(kept) == 3, f"left {left.split()}, kept {kept}")
    rig.sh(f"apt-get install --yes $(ls {HOME}/*.deb | tail -n 1) 2>&1 && systemctl restart rig-wheel")
    rig.play(1)
    expect(rig.records()[-1]["chain"] == chain, "another chain")
    return "no file left; configuration, key and journal kept; installed again, the same chain goes on"


def purge(rig: Rig) -> str:
    """Purged: what proves results stays."""
    rig.sh("systemctl stop rig-wheel")
    said = rig.sh("apt-get purge --yes dollyd 2>&1")
    kept = rig.sh(f"ls {CONFIG} {KEY} {JOURNAL}").split()
    units = rig.sh("find /etc/systemd/system /var/lib/systemd -name '*dollyd*'", check=False).split()
    expect(len(kept) == 3 and "is kept" in said and not units, f"kept {kept}, units {units}: {said[-300:]}")
    return "configuration, key and journal kept, and said so; no trace in systemd"


# --- reading records -----------------------------------------------------------------------------


def kinds(rig: Rig) -> dict[str, int]:
    """Records by kind."""
    found: dict[str, int] = {}
    for record in rig.records():
        found[record["kind"]] = found.get(record["kind"], 0) + 1
    return found


def story(rig: Rig, number: int) -> str:
    """The records of a round, in order."""
    chain = rig.records()[-1]["chain"]
    return " > ".join(
        one["kind"] for one in rig.records() if one["round"] == number and one["chain"] == chain
    )


def unheard(rig: Rig) -> list[tuple[str, int]]:
    """Records of the journal that no listener got."""
    heard = rig.heard()
    written = [(one["chain"], one["seq"]) for one in rig.records()]
    return [one for one in written if one not in heard]


def verify(rig: Rig) -> str:
    """`dollyd verify` with the node's key. Raises `MachineError` where anything is wrong."""
    rig.sh(f"dollyd keys show {KEY} >{HOME}/keys.json")
    rig.sh(f"dollyd verify {JOURNAL} --keys {HOME}/keys.json")
    return "dollyd verify: good"


CASES: dict[str, Case] = {
    "READY": ready,
    "results on MQTT": results,
    "security": security,
    "hung loop": hung,
    "kill -9": killed,
    "blocked device at stop": blocked_device,
    "wrong configuration": wrong_configuration,
    "credential missing": no_credential,
    "journald flood": journald_flood,
    "broker restarted": broker_restarted,
    "disk full": disk_full,
    "reload": reload,
    "witness as a service": witness,
    "reboot in a round": reboot,
    "power cut in a round": power_cut,
}
__all__ = ["CASES", "Case", "MachineError", "Unexpected", "purge", "remove", "upgrade", "whole_journal"]
