"""What people call the games: texts for displays, by language (ISO 639-1), as the regulations have them.

Swedish is the language in which we have the annex to the Finnish decree; Tuplanoppa has its Finnish name in
it. The French text of Quebec's by-law names no game. In records and topics a game has its one English name.
"""

from __future__ import annotations

NAMES: dict[str, dict[str, str]] = {
    "roulette": {"en": "Roulette", "sv": "Roulette"},
    "boule": {"en": "Boule", "sv": "Boule"},
    "money-wheel": {"en": "Money Wheel", "sv": "Lyckohjul"},
    "tuplanoppa": {"en": "Tuplanoppa", "fi": "Tuplanoppa", "sv": "Tuplanoppa"},
    "sic-bo": {"en": "Sic Bo", "sv": "Sic Bo"},
    "craps": {"en": "Craps"},
}
