"""What the service's own user may do with the files that the configuration names: root may do everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dollyd.daemon.doctor.case import BE_ROOT, Case, Finding, fault, warning
from dollyd.daemon.doctor.credentials import is_credential
from dollyd.daemon.settings.file_names import is_secret
from dollyd.wire.files import Sight, look_for


def file_access(case: Case) -> Iterator[Finding]:
    """A key, a rule or another file that the service will not be able to read. Credentials are systemd's."""
    user = case.user
    if case.settings is None or user is None:
        return
    for key, path in case.settings.files.items():
        if is_credential(str(path)):
            continue
        try:
            may_read = user.may_read(path, case.host.root)
        except PermissionError:
            yield warning("file-unseen", f"{key}: {path} is hidden from you", BE_ROOT)
            continue
        except OSError:  # not there: the configuration is refused for it
            continue
        if not may_read:
            mine = f"chown {user.name}" if is_secret(key) else f"chmod 640, chgrp {user.name}"
            remedy = f"`{mine}`, and have every folder above it let {user.name} pass"
            yield fault("file-access", f"{key}: {user.name} may not read {path}", remedy)


def metrics_access(case: Case) -> Iterator[Finding]:
    """The service cannot replace its file of figures."""
    if case.settings is None or not case.settings.metrics.file:
        return
    folder = Path(case.settings.metrics.file).parent
    seen = look_for(folder)
    if seen is Sight.HIDDEN:
        yield warning("metrics-unseen", f"metrics.file: {folder} is hidden from you", BE_ROOT)
    elif seen is Sight.MISSING or not folder.is_dir() or not case.may_use(folder):
        what = f"metrics.file: {folder} cannot be written"
        yield fault("metrics-file", what, "name a file in a folder that dollyd's user may write")
