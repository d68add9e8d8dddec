"""The games: one table, one file a game. A new game is one file and one line here."""

from __future__ import annotations

from dollyd.daemon.core.games import roulette
from dollyd.daemon.core.games.spec import Game

GAMES: dict[str, Game] = {
    "roulette": roulette.ROULETTE,
}
