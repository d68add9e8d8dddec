"""One fault after the other in a machine that is else in good health: found, and nothing else is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.chains import ChainMaker
from tests.support.journals import filled, journal_of
from tests.support.machine import CH340
from tests.support.site_broker import Authority

from dollyd.daemon.brokers.finding import Finding as BrokerFinding
from dollyd.daemon.brokers.finding import Level
from dollyd.daemon.discovery.listening import Heard
from dollyd.daemon.host.self_check import MANIFEST
from dollyd.daemon.journal.audit import Audit
from dollyd.daemon.journal.file import audit_path
from dollyd.daemon.journal.store import Journal
from dollyd.daemon.keys.signing import new_key
from dollyd.daemon.keys.trust_file import change_trust, new_trust
from dollyd.wire.record import Kind, Time
from dollyd.wire.stamp import NS_PER_S, iso_utc
from dollyd.wire.trust import NodeKey

if TYPE_CHECKING:
    from tests.daemon.doctor.conftest import Bench

CAT, KERNEL = ("systemctl", "cat"), ("journalctl", "--dmesg")
KEY = "tables.r1.devices.wheel"
DAY_NS = 86_400 * NS_PER_S
BRLTTY = 'ENV{PRODUCT}=="1a86/7523/*", ENV{BRLTTY_BRAILLE_DRIVER}="bm"\n#ENV{PRODUCT}=="403/6001/*"'


def test_a_healthy_machine_has_no_finding(bench: Bench) -> None:
    assert bench.findings() == []


def test_a_machine_without_systemd_and_udev_is_looked_at_all_the_same(bench: Bench) -> None:
    bench.machine.answers.clear()
    new_key(bench.home / "own.pem")
    bench.configure(("/run/credentials/dollyd.service/dollyd_signing.pem", f"{bench.home}/own.pem"))
    assert bench.found() <= {"modem-manager"}


# --- ports ---------------------------------------------------------------------------------------


def unplugged(bench: Bench) -> None:
    bench.machine.path(bench.port).unlink()
    bench.machine.path("/dev/ttyUSB0").unlink()


def stale(bench: Bench) -> None:
    for name in ("dev", "device"):
        bench.machine.path(f"/sys/class/tty/ttyUSB0/{name}").unlink()
    bench.machine.path("/sys/class/tty/ttyUSB0").rmdir()


def held(bench: Bench) -> None:
    bench.machine.process(812, "minicom", opens="/dev/ttyUSB0")


def group_of_root(bench: Bench) -> None:
    bench.machine.path("/dev/ttyUSB0").chmod(0o600)


def not_in_dialout(bench: Bench) -> None:
    gid = bench.machine.path("/dev/ttyUSB0").stat().st_gid
    bench.machine.write("/etc/group", f"dialout:x:{gid}:other")
    bench.home.chmod(0o777)


def kernel_name(bench: Bench) -> None:
    bench.configure((bench.port, "/dev/ttyUSB0"))


def one_serial(bench: Bench) -> None:
    for number in (1, 2):
        bench.machine.adapter(f"ttyUSB{number}", f"1-{number + 1}", CH340, "0001")


def no_serial(bench: Bench) -> None:
    for number in (1, 2):
        bench.machine.adapter(f"ttyUSB{number}", f"1-{number + 1}", CH340)


def asleep(bench: Bench) -> None:
    bench.machine.write("/sys/devices/pci0/usb1/1-1/power/control", "auto")


def late(bench: Bench) -> None:
    bench.machine.adapter("ttyUSB0", "1-1", serial="A50285BI", latency_ms=255)


def loose(bench: Bench) -> None:
    bench.machine.answers[KERNEL] = "usb 1-1: USB disconnect, device number 4\n" * 9


def loose_by_dmesg(bench: Bench) -> None:
    del bench.machine.answers[KERNEL]
    bench.machine.answers[("dmesg",)] = "[  1.0] usb 1-1: USB disconnect, device number 4\n" * 9


def modem_manager(bench: Bench) -> None:
    bench.machine.process(900, "ModemManager")
    bench.machine.write("/run/udev/data/c188:0", "E:ID_BUS=usb")


def brltty_rules(bench: Bench) -> None:
    bench.machine.write("/usr/lib/udev/rules.d/85-brltty.rules", BRLTTY)


def brltty_took_it(bench: Bench) -> None:
    bench.machine.answers[KERNEL] = (
        "usb 1-2: usbfs: interface 0 claimed by ch341 while 'brltty' sets config #1"
    )


# --- machine and service -------------------------------------------------------------------------


def hidden(bench: Bench) -> None:
    bench.machine.answers[CAT] += "\n[Service]\nPrivateDevices=yes\n"


def not_allowed(bench: Bench) -> None:
    bench.machine.answers[CAT] += (
        "\n[Service]\nDevicePolicy=closed\nDeviceAllow=\nDeviceAllow=char-ttyACM rw\n"
    )


def no_credential(bench: Bench) -> None:
    bench.configure(("dollyd_signing.pem", "signing.pem"))


def no_source(bench: Bench) -> None:
    bench.key.unlink()


def changed_program(bench: Bench) -> None:
    (bench.package / MANIFEST).write_text(f"{'0' * 64}  app.py\n")
    (bench.package / "app.py").write_text("changed")


def unsynchronised(bench: Bench) -> None:
    bench.clock.synchronised = False


def no_time_service(bench: Bench) -> None:
    bench.machine.answers[("systemctl", "is-active")] = "inactive\n" * 6


def log_suppressed(bench: Bench) -> None:
    words = ("journalctl", "--boot", "--unit=systemd-journald.service")
    bench.machine.answers[words] = "Suppressed 4711 messages from dollyd.service\n"


def no_room(bench: Bench) -> None:
    bench.configure(("low_mb = 0", "low_mb = 2000000000"), ("floor_mb = 0", "floor_mb = 1000000000"))


def little_room(bench: Bench) -> None:
    bench.configure(("low_mb = 0", "low_mb = 2000000000"))


# --- evidence ------------------------------------------------------------------------------------


def in_memory(bench: Bench) -> None:
    bench.machine.write("/proc/self/mounts", f"/dev/sda1 / ext4 rw 0 0\ntmpfs {bench.home} tmpfs rw 0 0")


def on_network(bench: Bench) -> None:
    bench.machine.write("/proc/self/mounts", f"/dev/sda1 / ext4 rw 0 0\nnas:/x {bench.home} nfs4 rw 0 0")


def not_writable(bench: Bench) -> None:
    bench.home.chmod(0o750)


def no_folder(bench: Bench) -> None:
    bench.configure(("journal.db", "missing/journal.db"))


def damaged(bench: Bench) -> None:
    path = bench.home / "journal.db"
    filled(path, rounds=20)
    Journal.open(path).close()  # the WAL goes into the file
    path.chmod(0o660)
    with path.open("r+b") as journal:
        journal.seek(3 * 4096)
        journal.write(b"\xff" * 4096)


def put_aside(bench: Bench) -> None:
    (bench.home / "journal.db.damaged-20261129T101500Z").write_text("")


def audited(bench: Bench, *problems: str, days_ago: int = 0) -> None:
    """What the last verification of the whole journal found, and when."""
    time = iso_utc(bench.clock.stamp().utc_ns - days_ago * DAY_NS)
    found = Audit(time=time, records=7, problems=problems)
    audit_path(bench.home / "journal.db").write_bytes(msgspec.json.encode(found))


def readable_key(bench: Bench) -> None:
    bench.key.chmod(0o644)


def certificate(bench: Bench, ahead_ns: int, hours: float = 24 * 365) -> None:
    authority = Authority(bench.home)
    authority.issue("box1", hours)
    bench.give_to_service(bench.home / "box1.key")
    files = f'cert_file = "{bench.home}/box1.crt"\nkey_file = "{bench.home}/box1.key"\n'
    bench.configure(("[signing]", f"[mqtt]\nbrokers = ['mqtts://here']\n{files}[signing]"))
    bench.clock.step_utc(ahead_ns)


def no_certificate(bench: Bench) -> None:
    certificate(bench, 0)
    (bench.home / "box1.crt").write_text("no PEM")


def trust(
    bench: Bench, *, named: bool = True, revoked: str = "", site: str = "house", renew_days: int = 0
) -> None:
    root = new_key(bench.home / "root.pem")
    path = bench.home / "trust.json"
    new_trust(path, site, root, "2026-01-01T00:00:00.000000000Z")
    node = NodeKey(node="box1", jwk=bench.signer.jwk, not_before="2026-01-01T00:00:00.000000000Z")
    if revoked:
        node = msgspec.structs.replace(node, revoked=revoked, reason="stolen")
    if named:
        later = "2026-01-02T00:00:00.000000000Z"
        change_trust(
            path, root, later, lambda old: msgspec.structs.replace(old, nodes=(node,), renew_days=renew_days)
        )
    bench.configure(("[tables.r1]", f'trust = "{path}"\nroot = "{root.kid}"\n[tables.r1]'))


def early_record(bench: Bench) -> None:
    trust(bench)
    maker = ChainMaker(by=bench.signer)
    body = {"event": "chain-start", "jwk": bench.signer.jwk, "reason": "new-journal"}
    time = Time(
        utc="2025-12-31T23:59:59.000000000Z", monotonic_ns=1, boot="b", synchronised=True, error_bound_us=1
    )
    maker.add(Kind.KEY, body=body, header={"time": time})
    journal_of(bench.home / "journal.db", maker).chmod(0o660)


def strange_key(bench: Bench) -> None:
    certificate(bench, 0)
    Authority(bench.home).issue("other")
    (bench.home / "box1.key").write_bytes((bench.home / "other.key").read_bytes())


# --- what answers --------------------------------------------------------------------------------


def heard(**what: object) -> Callable[[Bench], None]:
    def seed(bench: Bench) -> None:
        bench.change(heard={KEY: Heard(**what)})  # type: ignore[arg-type]  # tests know the fields

    return seed


def broker(*found: BrokerFinding) -> Callable[[Bench], None]:
    return lambda bench: bench.change(brokers={"localhost:1883": list(found)})


def wrong(what: str) -> BrokerFinding:
    return BrokerFinding(Level.WRONG, what, "not as it must be", "mend it")


SEEDS: Iterable[tuple[str, Callable[[Bench], None]]] = (
    ("port-missing", unplugged),
    ("port-stale", stale),
    ("port-held", held),
    ("port-group", group_of_root),
    ("user-groups", not_in_dialout),
    ("port-name", kernel_name),
    ("one-serial", one_serial),
    ("no-serial", no_serial),
    ("autosuspend", asleep),
    ("latency-timer", late),
    ("usb-unstable", loose),
    ("usb-unstable", loose_by_dmesg),
    ("modem-manager", modem_manager),
    ("brltty", brltty_rules),
    ("brltty", brltty_took_it),
    ("config-unknown-key", lambda bench: bench.configure(("low_mb", "lowest_mb"))),
    ("config", lambda bench: bench.configure(('"A"', '"Z"'))),
    ("sandbox", hidden),
    ("sandbox", not_allowed),
    ("credential", no_credential),
    ("credential-missing", no_source),
    ("unit-missing", lambda bench: bench.state(LoadState="not-found")),
    ("unit-disabled", lambda bench: bench.state(UnitFileState="disabled")),
    ("unit-failed", lambda bench: bench.state(ActiveState="failed", Result="exit-code", ExecMainStatus="78")),
    ("unit-stopped", lambda bench: bench.state(ActiveState="inactive")),
    ("start-limit", lambda bench: bench.state(ActiveState="failed", Result="start-limit-hit")),
    ("program-changed", changed_program),
    ("clock", unsynchronised),
    ("time-service", no_time_service),
    ("log-suppressed", log_suppressed),
    ("disk-full", no_room),
    ("disk-low", little_room),
    ("journal-in-memory", in_memory),
    ("journal-on-network", on_network),
    ("journal-access", not_writable),
    ("journal-path", no_folder),
    ("journal-damaged", damaged),
    ("journal-was-damaged", put_aside),
    ("journal-unsound", lambda bench: audited(bench, "record 16 is missing")),
    ("journal-not-verified", lambda bench: audited(bench, days_ago=4)),
    ("key-file", readable_key),
    ("cert-expired", lambda bench: certificate(bench, 400 * DAY_NS)),
    ("cert-not-yet", lambda bench: certificate(bench, -30 * DAY_NS)),
    ("cert-soon", lambda bench: certificate(bench, 0, hours=24 * 9)),
    ("cert-key", strange_key),
    ("trust-old", lambda bench: trust(bench, renew_days=1)),
    ("records-before-trust", early_record),
    ("key-untrusted", lambda bench: trust(bench, named=False)),
    ("key-revoked", lambda bench: trust(bench, revoked="2026-02-01T00:00:00.000000000Z")),
    ("trust-file", lambda bench: trust(bench, site="elsewhere")),
    ("device-silent", heard(status="init")),
    ("device-silent", heard(status="lost", cause="eof", bytes=9000, by_daemon=True)),
    ("device-silent", heard(status="init", cause="silent", bytes=7, by_daemon=True)),
    ("device-garbled", heard(status="stale", bytes=9000, by_daemon=True)),
    ("device-garbled", heard(status="init", cause="silent", bytes=9000, by_daemon=True)),
    ("port-settings", heard(status="lost", cause="settings-changed", by_daemon=True)),
    ("wrong-baud", heard(status="init", bytes=900)),
    ("port-unusable", heard(cause="refused-settings")),
    ("port-held", heard(cause="busy", detail="held by brltty (pid 812)")),
    ("wrong-pockets", heard(status="wrong-device", identity={"pockets": "38"})),
    ("wrong-device", heard(status="wrong-device", identity={"kind": "BALL"})),
    ("ss2-mode-128", heard(status="init", bytes=20, identity={"mode": "1031", "status_output": "on"})),
    ("ss2-output-off", heard(status="init", bytes=20, identity={"mode": "1159", "status_output": "off"})),
    ("device-fault", heard(status="fault", bytes=900)),
    ("broker-queue", broker(wrong("queue"))),
    ("broker-access", broker(wrong("access"), BrokerFinding(Level.GOOD, "reach", "it is there"))),
)


def test_b13_b19_b41_every_seeded_fault_is_found_and_nothing_else(
    bench: Bench, seed: Callable[[Bench], None], id_: str
) -> None:
    seed(bench)
    assert bench.found() == {id_}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        ids = [f"{id_}-{number}" for number, (id_, _) in enumerate(SEEDS)]
        metafunc.parametrize(("id_", "seed"), SEEDS, ids=ids)


def test_a_key_that_the_site_trusts_is_good(bench: Bench) -> None:
    trust(bench)
    assert bench.findings() == []


def test_a_certificate_that_is_none_is_named(bench: Bench) -> None:
    no_certificate(bench)
    assert bench.found() == {"cert-unreadable"}


def test_a_port_that_the_daemon_holds_and_no_broker_tells_of(bench: Bench) -> None:
    bench.machine.process(700, "python3", opens="/dev/ttyUSB0")
    broker(BrokerFinding(Level.GOOD, "reach", "it is there"))(bench)
    assert bench.found() == {"device-unknown"}


def generator(bench: Bench, *plugs: str, mode: int = 0o660) -> None:
    """The table has a ChaosKey for its odds, on the bus."""
    bench.configure(
        ('variant = "A"', 'variant = "B"'),
        ("", '[tables.r1.devices.odds]\ndriver = "chaoskey"\nrole = "odds"\nport = "usb:1d50:60c6"\n'),
    )
    for plug in plugs:
        bench.machine.usb(plug, ("1d50", "60c6"), f"00A{plug[-1]}")
        node = f"/dev/bus/usb/001/00{plug[-1]}"
        bench.machine.write(node, "")
        bench.machine.path(node).chmod(mode)


def test_a_generator_on_the_bus_is_there_once_and_may_be_used(bench: Bench) -> None:
    generator(bench, "1-4")
    assert bench.findings() == []


@pytest.mark.parametrize(
    ("plugs", "mode", "id_"),
    [((), 0o660, "port-missing"), (("1-4", "1-5"), 0o660, "usb-ambiguous"), (("1-4",), 0o600, "port-group")],
)
def test_a_generator_that_is_not_there_twice_there_or_forbidden(
    bench: Bench, plugs: tuple[str, ...], mode: int, id_: str
) -> None:
    generator(bench, *plugs, mode=mode)
    assert bench.found() == {id_}


def test_a_journal_too_large_for_a_look_is_said_to_be_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(bench.home / "journal.db", rounds=300)
    (bench.home / "journal.db").chmod(0o660)
    monkeypatch.setattr("dollyd.daemon.doctor.evidence_checks._CHECK_S", -1)
    assert bench.found() == {"journal-unchecked"}


@pytest.mark.parametrize("spoil", [group_of_root, asleep, modem_manager])
def test_for_a_device_that_our_rules_do_not_know_the_rule_is_written_out(
    bench: Bench, spoil: Callable[[Bench], None]
) -> None:
    spoil(bench)
    assert "install dollyd's udev rules" in bench.told()
    bench.machine.write("/sys/devices/pci0/usb1/1-1/idVendor", "1209")
    bench.machine.write("/sys/devices/pci0/usb1/1-1/idProduct", "0001")
    assert 'ATTRS{idVendor}=="1209", ATTRS{idProduct}=="0001", GROUP="dialout"' in bench.told()


def test_a_holder_is_named(bench: Bench) -> None:
    held(bench)
    assert "minicom (pid 812)" in bench.told()


def test_the_daemon_itself_is_no_stranger(bench: Bench) -> None:
    bench.machine.process(700, "python3", opens="/dev/ttyUSB0")
    assert bench.findings() == []
    bench.state(MainPID="0")
    assert bench.found() == {"port-held"}
    command = "/opt/dollyd/bin/python /opt/dollyd/bin/dollyd run --config F"
    bench.machine.write("/proc/700/cmdline", command.replace(" ", "\0"))
    assert bench.findings() == []


def test_the_group_to_join_is_named(bench: Bench) -> None:
    not_in_dialout(bench)
    assert "usermod -aG dialout dollyd" in bench.told()


def test_b13_rules_of_brltty_that_are_masked_or_taken_back_are_no_fault(bench: Bench) -> None:
    brltty_rules(bench)
    bench.machine.write("/etc/udev/rules.d/85-brltty.rules", "")
    assert bench.findings() == []
    bench.machine.path("/etc/udev/rules.d/85-brltty.rules").unlink()
    bench.machine.write("/etc/udev/rules.d/90-dollyd.rules", "")
    assert bench.findings() == []


def test_a_name_that_two_adapters_want_is_no_name(bench: Bench) -> None:
    bench.machine.adapter("ttyUSB1", "1-2", CH340)
    port = bench.machine.adapter("ttyUSB2", "1-3", CH340)
    bench.configure((bench.port, port))
    assert bench.found() == {"no-serial", "by-id-collision"}
    (collision,) = (one for one in bench.findings() if one.id == "by-id-collision")
    assert "by-path/pci-usb-0:1-3:1.0-port0" in collision.remedy


def test_a_wheel_that_is_polled_needs_no_push(bench: Bench) -> None:
    bench.configure(("", "options = { polled = true }\n"))
    bench.change(heard={KEY: Heard(status="ready", bytes=900, identity={"mode": "1031"})})
    assert bench.findings() == []


def test_a_credential_is_looked_at_where_systemd_takes_it_from(bench: Bench) -> None:
    assert bench.case().keyring is not None
    bench.key.chmod(0o644)
    assert bench.found() == {"key-file"}


def test_a_credential_that_only_root_may_see_is_said_to_be_unseen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dollyd.daemon.doctor.credentials.os.access", lambda *_: False)
    assert bench.found() == {"credential-unseen"}


def test_every_id_of_a_fault_is_seeded_here_or_for_real() -> None:
    sources = Path(__file__).parents[3] / "daemon" / "doctor"
    text = "".join(path.read_text() for path in sources.glob("*_checks.py"))
    ids = set(re.findall(r'(?:fault|warning)\(\s*"([a-z0-9-]+)"', text))
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert len(ids) >= 40
    assert {id_ for id_ in ids if json.dumps(id_) not in tests} == set()
