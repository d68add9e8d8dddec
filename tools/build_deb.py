"""`make deb`: the Debian package, with its Python libraries inside. See `python -m tools.build_deb --help`.

The virtual environment is laid out by hand: libraries in place, Debian's own interpreter by a link. So
nothing in it depends on the machine that builds it, but for what its Python compiles and its dpkg packs. With
the same of these, the same source and SOURCE_DATE_EPOCH give the same package, byte for byte.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import md5
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from tools.manifest import seal_directory

from dollyd.daemon.host.self_check import ENVIRONMENT, SEALED_WHOLE

ROOT = Path(__file__).resolve().parents[1]
HOME = "opt/dollyd"
SITE_PACKAGES = f"{HOME}/lib/python3.11/site-packages"
DOC = "usr/share/doc/dollyd"
PYTHON = (3, 11)
"""That of Debian 12."""
GLIBC_MINOR = 36
"""glibc of Debian 12 is 2.36; wheels made for an older one do too."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

PIP_INSTALL = "pip --disable-pip-version-check install --quiet --no-deps --no-compile --only-binary :all:"
PIP = (sys.executable, "-m", *PIP_INSTALL.split())
PLACES = {
    "systemd/dollyd.service": "lib/systemd/system/dollyd.service",
    "systemd/60-dollyd.rules": "lib/udev/rules.d/60-dollyd.rules",
    "systemd/90-dollyd.rules": "lib/udev/rules.d/90-dollyd.rules",
    "systemd/dollyd.modules-load": "usr/lib/modules-load.d/dollyd.conf",
    "systemd/dollyd.sysusers": "usr/lib/sysusers.d/dollyd.conf",
    "systemd/dollyd.tmpfiles": "usr/lib/tmpfiles.d/dollyd.conf",
    "packaging/deb/copyright": f"{DOC}/copyright",
    "systemd/dollyd-consumer@.service": f"{DOC}/examples/dollyd-consumer@.service",
    "config/mosquitto.conf": f"{DOC}/examples/mosquitto.conf",
    "config/mosquitto.acl": f"{DOC}/examples/mosquitto.acl",
}
"""Files of the source tree, and where they lie on the table's machine."""
SCRIPTS = ("postinst", "prerm", "postrm")
LINK = "usr/bin/dollyd"
LAUNCHER = f"""#!/{HOME}/bin/python3 -IB
import sys

from dollyd.daemon.__main__ import main

sys.exit(main())
"""


def build_deb(source: Path, out: Path, architecture: str) -> Path:
    """Build the package of a source tree; gives its path. Ends the program where a step fails."""
    version = version_of(source)
    epoch = source_date(source)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # but for what is compiled on purpose
    out.mkdir(parents=True, exist_ok=True)
    deb = out / f"dollyd_{version}_{architecture}.deb"
    with TemporaryDirectory(prefix="dollyd-deb-") as folder:
        stage = Path(folder) / "stage"
        lay_out_libraries(source, stage, architecture, environment)
        lay_out_program(stage, environment)
        lay_out_files(source, stage)
        compress_documents(source, stage, environment)
        seal(stage)
        write_control(source, stage, version, architecture)
        normalise(stage, epoch)
        run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(stage), str(deb)], environment)
    return deb


def version_of(source: Path) -> str:
    """The version that the program says of itself."""
    text = (source / "src/dollyd/__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        sys.exit(f"{source}/src/dollyd/__init__.py names no version")
    return found[1]


def source_date(source: Path) -> int:
    """SOURCE_DATE_EPOCH, else the time of the last commit, else that of the change log."""
    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not told:
        git = ["git", "-C", str(source), "log", "-1", "--format=%ct"]
        done = subprocess.run(git, capture_output=True, text=True, check=False)
        told = done.stdout.strip()
    return int(told) if told else int((source / "CHANGELOG.md").stat().st_mtime)


def lay_out_libraries(source: Path, stage: Path, architecture: str, environment: Mapping[str, str]) -> None:
    """The pinned libraries as wheels, and ours."""
    machine = MACHINES[architecture]
    site = stage / SITE_PACKAGES
    pip = [*PIP, "--target", str(site), "--upgrade"]
    pip += ["--implementation", "cp", "--python-version", "{}.{}".format(*PYTHON)]
    for minor in range(GLIBC_MINOR, 16, -1):
        pip += ["--platform", f"manylinux_2_{minor}_{machine}"]
    pip += ["--platform", f"manylinux2014_{machine}"]
    pinned = source / "packaging/deb/requirements.txt"
    run([*pip, "--require-hashes", "--requirement", str(pinned)], environment)
    run([*pip, str(build_wheel(source, stage.parent, environment))], environment)
    shutil.rmtree(site / "bin", ignore_errors=True)  # programs of the machine that builds
    for trace in (*site.glob("*.dist-info/direct_url.json"), *site.glob("*.dist-info/RECORD")):
        trace.unlink()  # names the build's own paths


def build_wheel(source: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Our wheel, by the pinned build tools and not by those that happen to be installed."""
    tools, wheels = folder / "tools", folder / "wheels"
    pinned = source / "packaging/deb/build-requirements.txt"
    run([*PIP, "--target", str(tools), "--require-hashes", "--requirement", str(pinned)], environment)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(source)]
    run(build, {**environment, "PYTHONPATH": str(tools)})
    (wheel,) = wheels.glob("dollyd-*.whl")
    return wheel


def lay_out_program(stage: Path, environment: Mapping[str, str]) -> None:
    """The environment around the libraries: interpreter, launcher, byte code."""
    programs = stage / HOME / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to("/usr/bin/python3.11")
    (programs / "python").symlink_to("python3")
    (programs / "dollyd").write_text(LAUNCHER)
    (programs / "dollyd").chmod(0o755)
    settings = ("home = /usr/bin", "include-system-site-packages = false", SEALED_WHOLE, "")
    (stage / HOME / ENVIRONMENT).write_text("\n".join(settings))
    (stage / LINK).parent.mkdir(parents=True)
    (stage / LINK).symlink_to(f"/{HOME}/bin/dollyd")
    # By the hash of the source, not by its time: the same everywhere, and a changed source is not passed by.
    # The launcher never writes any (-B), not even for root: what is there is what was sealed.
    compile_all = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    run([*compile_all, "-s", str(stage), "-p", "/", str(stage / HOME / "lib")], environment)


def lay_out_files(source: Path, stage: Path) -> None:
    """What lies outside the environment."""
    examples = {path: f"{DOC}/examples/{path.name}" for path in (source / "config/examples").glob("*.toml")}
    for path, place in {**{source / name: place for name, place in PLACES.items()}, **examples}.items():
        target = stage / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def compress_documents(source: Path, stage: Path, environment: Mapping[str, str]) -> None:
    """The manual pages as the built program prints it, and the change log."""
    site = {**environment, "PYTHONPATH": f"{stage / SITE_PACKAGES}:{ROOT}"}
    page = run([sys.executable, "-P", "-m", "tools.man_page"], site)
    print_toml = "from tools.schemas.configuration import man_page; print(man_page(), end='')"
    toml_page = run([sys.executable, "-P", "-c", print_toml], site)
    documents = {
        "usr/share/man/man1/dollyd.1.gz": page.encode(),
        "usr/share/man/man5/dollyd.toml.5.gz": toml_page.encode(),
        f"{DOC}/changelog.gz": (source / "CHANGELOG.md").read_bytes(),
    }
    for place, text in documents.items():
        target = stage / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text, mtime=0))


def seal(stage: Path) -> None:
    """The manifest over all that the daemon runs, here and elsewhere; documents may be left out by dpkg."""
    beside = [LINK, *(place for place in PLACES.values() if not place.startswith(DOC))]
    seal_directory(stage / HOME, {f"/{place}": stage / place for place in beside})


def write_control(source: Path, stage: Path, version: str, architecture: str) -> None:
    """What dpkg reads: the control file, digests of all files, and the maintainer scripts."""
    files = sorted(installed(stage))
    control = stage / "DEBIAN"
    control.mkdir()
    kib = sum(-(-path.stat().st_size // 1024) for path in files)
    template = Template((source / "packaging/deb/control").read_text("utf-8"))
    told = template.substitute(version=version, architecture=architecture, installed_kib=kib)
    (control / "control").write_text(told)
    digests = (f"{md5(path.read_bytes()).hexdigest()}  {path.relative_to(stage)}\n" for path in files)  # noqa: S324  dpkg's format
    (control / "md5sums").write_text("".join(digests))
    for name in SCRIPTS:
        shutil.copyfile(source / "packaging/deb" / name, control / name)
        (control / name).chmod(0o755)


def installed(stage: Path) -> Iterator[Path]:
    """Regular files of the package."""
    return (path for path in stage.rglob("*") if path.is_file() and not path.is_symlink())


def normalise(stage: Path, epoch: int) -> None:
    """Modes and times that do not depend on who builds, and when."""
    for path in (stage, *stage.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def run(command: list[str], environment: Mapping[str, str]) -> str:
    """What a command prints. Ends the program with what it said where it fails."""
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:6])} ... failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build what the command line asks for."""
    if sys.version_info[:2] != PYTHON:
        sys.exit("the package holds byte code for Debian 12: build it with Python 3.11")
    parser = argparse.ArgumentParser(description="Build dollyd_VERSION_ARCHITECTURE.deb for Debian 12.")
    parser.add_argument("--source", type=Path, default=ROOT, help="another source tree than this one")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the package (dist)")
    parser.add_argument("--architecture", choices=MACHINES, default="", help="that of this machine")
    told = parser.parse_args()
    architecture = told.architecture or run(["dpkg", "--print-architecture"], os.environ).strip()
    print(build_deb(told.source.resolve(), told.out.resolve(), architecture))


if __name__ == "__main__":
    main()
