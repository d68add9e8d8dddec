"""Seal a build: `python -m tools.manifest WHEEL` writes `MANIFEST.sha256` into the package of a wheel.

The Debian package is sealed as a whole by `tools.build_deb`. It is the last step of a build: what is changed
afterwards is what the self-check of the daemon finds.
"""

from __future__ import annotations

import base64
import sys
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from dollyd.daemon.host.self_check import MANIFEST, content, digests, manifest_of

PACKAGE = "dollyd"


def seal_directory(folder: Path, beside: Mapping[str, Path] = {}) -> str:
    """Write the manifest of our package, or of an environment to be sealed whole; gives its SHA-256.

    `beside`: files that will lie elsewhere, by the absolute paths that they will have.
    """
    manifest = manifest_of(digests(folder) | {name: content(path) for name, path in beside.items()})
    (folder / MANIFEST).write_bytes(manifest)
    return sha256(manifest).hexdigest()


def seal_wheel(wheel: Path) -> str:
    """Add the manifest to a wheel, and to the wheel's own list; gives the manifest's SHA-256."""
    with TemporaryDirectory(dir=wheel.parent) as folder:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
            contents = {member.filename: archive.read(member) for member in members}
        unpacked = Path(folder) / "unpacked"
        for name, data in contents.items():
            path = unpacked / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        digest = seal_directory(unpacked / PACKAGE)
        manifest = (unpacked / PACKAGE / MANIFEST).read_bytes()
        name = f"{PACKAGE}/{MANIFEST}"
        record = next(one for one in contents if one.endswith(".dist-info/RECORD"))
        encoded = base64.urlsafe_b64encode(sha256(manifest).digest()).rstrip(b"=").decode()
        lines = [line for line in contents[record].decode().splitlines() if not line.startswith(f"{name},")]
        lines.insert(-1, f"{name},sha256={encoded},{len(manifest)}")
        contents[record] = ("\n".join(lines) + "\n").encode()
        sealed = Path(folder) / wheel.name
        with zipfile.ZipFile(sealed, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in members:
                if member.filename not in {name, record}:
                    archive.writestr(member, contents[member.filename])
            like = zipfile.ZipInfo(name, members[0].date_time)
            like.external_attr = 0o644 << 16
            archive.writestr(like, manifest, zipfile.ZIP_DEFLATED)
            archive.writestr(next(one for one in members if one.filename == record), contents[record])
        sealed.replace(wheel)
    return digest


def main() -> None:
    """Seal the wheel that is named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.manifest WHEEL")
    wheel = Path(sys.argv[1])
    print(f"{seal_wheel(wheel)}  {wheel.name}/{PACKAGE}/{MANIFEST}")


if __name__ == "__main__":
    main()
