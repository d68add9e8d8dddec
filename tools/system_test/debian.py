"""A Debian 12 to install into: made once with debootstrap, kept outside the tree, copied for each run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from hashlib import sha256
from pathlib import Path

SUITE = "bookworm"
SYSTEM = ("systemd", "systemd-sysv", "dbus", "udev", "tzdata")
"""What a Debian on a table's machine has before anything of ours."""
NEEDED = ("python3", "libusb-1.0-0", "procps", "mosquitto", "mosquitto-clients")
"""What apt brings with our package; fetched beforehand, for the machine under test has no network."""
TOOLS = {"debootstrap": "debootstrap", "systemd-nspawn": "systemd-container"}


def why_not() -> str:
    """Why this machine cannot run the test, empty where it can. Installs what is missing."""
    if os.geteuid() != 0:
        return "it makes a container, which needs root"
    root = Path(__file__).resolve().parents[2]
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing and subprocess.run([root / "tools/apt-install", *missing], check=False).returncode != 0:
        return f"{', '.join(missing)} cannot be installed"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    if tried.returncode != 0:
        return "containers are not allowed here"
    try:
        base()
    except RuntimeError as error:
        return f"no Debian can be made: {error}"
    return ""


def cache() -> Path:
    """Where the tree is kept: $DOLLYD_CACHE, else ~/.cache/dollyd."""
    return Path(os.environ.get("DOLLYD_CACHE") or Path.home() / ".cache" / "dollyd")


def base() -> Path:
    """The tree, made where there is none yet: about two minutes and 300 MB."""
    contents = sha256(" ".join((SUITE, *SYSTEM, *NEEDED)).encode()).hexdigest()[:8]
    made = cache() / f"{SUITE}-{contents}"
    if made.is_dir():
        return made
    began = time.monotonic()
    print(f"making a Debian ({SUITE}) in {made}; once ...", flush=True)
    cache().mkdir(parents=True, exist_ok=True)
    making = made.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={','.join(SYSTEM)}"]
    quietly([*bootstrap, SUITE, str(making)])
    shutil.copyfile("/etc/resolv.conf", making / "etc/resolv.conf")
    quietly(["chroot", str(making), "apt-get", "update"])
    fetch = ["apt-get", "install", "--yes", "--no-install-recommends", "--download-only", *NEEDED]
    quietly(["chroot", str(making), *fetch])
    (making / "etc/machine-id").write_text("")  # each copy is a machine of its own
    making.rename(made)
    print(f"made in {time.monotonic() - began:.0f} s")
    return made


def copy(tree: Path, to: Path) -> None:
    """A machine of its own."""
    quietly(["cp", "--archive", "--reflink=auto", str(tree), str(to)])


def quietly(command: list[str]) -> None:
    """Run a command. Raises RuntimeError with what it said where it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
