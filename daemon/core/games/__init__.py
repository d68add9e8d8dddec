"""The games: one table, one file a game. A new game is one file and one line here."""

from __future__ import annotations

from dollyd.daemon.core.games.boule import BOULE
from dollyd.daemon.core.games.craps import CRAPS
from dollyd.daemon.core.games.money_wheel import MONEY_WHEEL
from dollyd.daemon.core.games.roulette import ROULETTE
from dollyd.daemon.core.games.sic_bo import SIC_BO
from dollyd.daemon.core.games.spec import Game
from dollyd.daemon.core.games.tuplanoppa import TUPLANOPPA

GAMES: dict[str, Game] = {
    "roulette": ROULETTE,
    "boule": BOULE,
    "money-wheel": MONEY_WHEEL,
    "tuplanoppa": TUPLANOPPA,
    "sic-bo": SIC_BO,
    "craps": CRAPS,
}
