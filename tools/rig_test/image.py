"""The machine's disk: Debian with its kernel (made once, kept), our package, and its configuration."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tools.system_test.debian import base, cache, copy, quietly

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "linux-image-amd64",
    "initramfs-tools",
    "zstd",
    "kmod",
    "iproute2",
    "usbutils",
    "qemu-guest-agent",
    "python3",
    "libusb-1.0-0",
    "procps",
)
HOME = "/srv/rig"
"""Where simulators lie in the machine, beside the system: the package holds none."""
KEY = "/etc/dollyd/credentials/signing.pem"
KEYS = f"{HOME}/keys.json"
"""The node's public key, as whoever verifies has it."""
PROGRAMS = ("gadget.py", "inside.py")
"""Ours that run in the machine."""
DISK = "3G"
GUEST, HOST = "10.0.2.15", "10.0.2.2"
"""Addresses of QEMU's user network."""
_IDLE = (
    "getty@tty1",
    "serial-getty@ttyS0",
    "systemd-logind",
    "systemd-user-sessions",
    "systemd-timesyncd",
    "e2scrub_reap",
    "apt-daily.timer",
    "modprobe@drm",
    "modprobe@fuse",
)
"""Nobody logs in, and every second counts under emulation."""
_NETWORK = f"""
[Unit]
Description=The one network card, without waiting for anything
DefaultDependencies=no
Wants=sys-subsystem-net-devices-eth0.device
After=sys-subsystem-net-devices-eth0.device
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip address add {GUEST}/24 dev eth0
ExecStart=ip link set eth0 up
ExecStart=ip route add default via {HOST}
[Install]
WantedBy=multi-user.target
"""
_INITRAMFS = "MODULES=list\nCOMPRESS=zstd\n"
_MODULES = "virtio_blk\nvirtio_pci\next4\n"


@dataclass(frozen=True, slots=True)
class Image:
    """What QEMU boots."""

    disk: Path
    kernel: Path
    initrd: Path


def debian() -> Path:
    """The tree with a kernel, made where there is none yet: some minutes and 800 MB."""
    contents = sha256(" ".join((base().name, *PACKAGES, _NETWORK, *_IDLE)).encode()).hexdigest()[:8]
    made = cache() / f"rig-{contents}"
    if made.is_dir():
        return made
    print(f"making a Debian with a kernel in {made}; once ...", flush=True)
    making = made.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    copy(base(), making)
    for name, text in (("conf.d/rig", _INITRAMFS), ("modules", _MODULES)):
        file = making / "etc/initramfs-tools" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    keep_ours = "-o Dpkg::Options::=--force-confold"
    within(making, f"apt-get install --yes --no-install-recommends {keep_ours} {' '.join(PACKAGES)}")
    (making / "etc/systemd/system/rig-network.service").write_text(_NETWORK)
    within(making, f"systemctl enable rig-network && systemctl mask {' '.join(_IDLE)}")
    within(making, "rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/*")
    (making / "etc/fstab").write_text("/dev/vda / ext4 rw 0 1\n")
    making.rename(made)
    return made


def build(folder: Path, deb: Path, files: dict[str, str]) -> Image:
    """A disk with the package installed and these files (path: text) in place. Raises RuntimeError."""
    root = folder / "root"
    copy(debian(), root)
    home = root / HOME[1:]
    home.mkdir(parents=True)
    shutil.copyfile(deb, home / deb.name)
    shutil.copytree(ROOT / "src/dollyd", home / "lib/dollyd", ignore=shutil.ignore_patterns("__pycache__"))
    programs = home / "lib/tools/rig_test"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copyfile(Path(__file__).with_name(name), programs / name)
    within(root, f"dpkg --install {HOME}/{deb.name}")
    within(root, f"dollyd keys new {KEY} && dollyd keys show {KEY} >{KEYS}")
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    within(root, "chown -R root:dollyd /etc/dollyd/*.toml && chmod 640 /etc/dollyd/*.toml")
    kernel = next((root / "boot").glob("vmlinuz-*"))
    initrd = next((root / "boot").glob("initrd.img-*"))
    image = Image(folder / "disk.img", folder / "vmlinuz", folder / "initrd.img")
    shutil.copyfile(kernel, image.kernel)
    shutil.copyfile(initrd, image.initrd)
    shutil.rmtree(root / "boot")
    quietly(["mkfs.ext4", "-q", "-F", "-d", str(root), str(image.disk), DISK])
    shutil.rmtree(root)
    return image


def build_package(folder: Path) -> Path:
    """The package of this tree."""
    command = [sys.executable, "-m", "tools.build_deb", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.split()[-1])


def within(root: Path, command: str) -> None:
    """Run a shell command in a tree that is not booted. Raises RuntimeError."""
    enter = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", "--as-pid2"]
    enter += ["--setenv=DEBIAN_FRONTEND=noninteractive", "--setenv=LC_ALL=C.UTF-8", f"--directory={root}"]
    quietly([*enter, "/bin/sh", "-ec", command])
