"""Makes the spin that `dollyd selftest` plays: one game of the simulated wheel, as a plain capture.

python tools/selftest_spin.py > config/selftest/roulette-spin.jsonl
"""

from __future__ import annotations

import json
from random import Random

from dollyd.simulators.ss2 import SHORT, Ss2Options, Ss2Wheel
from dollyd.wire.stamp import NS_PER_S

NUMBER = "17"


def main() -> None:
    """Play until the wheel has shown the number and begun its next game."""
    wheel = Ss2Wheel(Ss2Options(lengths=SHORT), Random("selftest"), 0, [NUMBER])
    shown = False
    while True:
        now_ns = wheel.due_ns() or 0
        for line in wheel.advance(now_ns).decode("ascii").split("\r\n"):
            if line:
                print(json.dumps({"t": now_ns / NS_PER_S, "dir": "rx", "line": line}))
            shown = shown or line.startswith("*X;5")
            if shown and line.startswith(("*X;2", "*X;1")):
                return


if __name__ == "__main__":
    main()
