"""Forces an exit 3.5 s after shutdown began, even if a thread hangs.

Python waits for its threads at exit, and one may be inside a call into a blocked device or disk that never
returns. What had to be kept is on the disk by then, or never will be: a restart recovers either way.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from dollyd.daemon.host.log import flush_log
from dollyd.daemon.host.logger import Logger

END_S = 3.5
"""How long an end may take; systemd is told 5 s (`TimeoutStopSec`)."""

_LOG = Logger(__name__)


class ForcedExit:
    """Once armed, ends the process after `END_S`, if it is still there. `code` gives the exit code then."""

    def __init__(self, code: Callable[[], int]) -> None:
        self._code = code
        self._armed = False

    def arm(self) -> None:
        """From now on; a second call changes nothing."""
        if not self._armed:
            self._armed = True
            threading.Thread(target=self._wait, name="last-resort", daemon=True).start()

    def _wait(self) -> None:
        time.sleep(END_S)
        own = {threading.current_thread(), threading.main_thread()}
        hung = sorted(thread.name for thread in set(threading.enumerate()) - own if not thread.daemon)
        _LOG.error("end_forced", after_s=END_S, threads=", ".join(hung))
        flush_log()
        os._exit(self._code())
