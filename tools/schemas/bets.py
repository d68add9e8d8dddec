"""The bets of every game with their selections: a part of docs/settlement.md, and all of docs/bets.json."""

from __future__ import annotations

from typing import Any

from dollyd.client.settlement import BETS, LoadedRulebook, load_rulebook, shipped_rulebooks
from dollyd.daemon.core.games import GAMES
from dollyd.daemon.core.games.names import NAMES
from dollyd.daemon.core.rulebook import convert

WINS: dict[str, dict[str, tuple[str, str]]] = {
    "roulette": {
        "straight": ("`pocket` is the selection", "`straight`"),
        "split": ("`pocket` is among the selection", "`split`"),
        "street": ("`pocket` is among the selection", "`street`"),
        "corner": ("`pocket` is among the selection", "`corner`"),
        "first_five": ("`pocket` is among the selection", "`first_five`"),
        "sixline": ("`pocket` is among the selection", "`sixline`"),
        "dozen": ("`dozen` is the selection", "`dozen`"),
        "column": ("`column` is the selection", "`column`"),
        "quarter": (
            "`quarter` is the selection; only where the outcome has one",
            "`quarter_odds` of the rulebook",
        ),
        "even_money": ("`colour`, `parity` or `half` is the selection; on zero see below", "`even_money`"),
    },
    "boule": {
        "straight": ("`number` is the selection", "`straight`"),
        **dict.fromkeys(("even", "odd"), ("`parity` is the kind", "the kind")),
        **dict.fromkeys(("red", "black"), ("`colour` is the kind", "the kind")),
        **dict.fromkeys(("1-4", "6-9"), ("`half` is the kind", "the kind")),
    },
    "money-wheel": {"symbol": ("`symbol` is the selection", "the selection")},
    "tuplanoppa": {
        "sum": ("`sum` is the selection", "`sum_N`"),
        "any_pair": ("`pair` is true", "`any_pair`"),
        "under_7": ("`under_over` is `under`; on `seven` one half is lost", "`under_7`"),
        "over_7": ("`under_over` is `over`; on `seven` one half is lost", "`over_7`"),
    },
    "sic-bo": {
        "small": ("`size` is the kind", "the kind"),
        "big": ("`size` is the kind", "the kind"),
        "single": (
            "`count_N` of the selection is 1, 2 or 3",
            "`single_1`, `single_2`, `single_3` by that count",
        ),
        "two_dice": ("the selection is among `two_dice`", "`two_dice`"),
        "double": ("the selection is among `doubles`", "`double`"),
        "any_triple": ("`triple` is true", "`any_triple`"),
        "triple": ("`count_N` of the selection is 3", "`triple`"),
        "total": ("`total` is the selection", "`total_N`"),
    },
    "craps": {
        "right": ("`sum` is the selection; loses on 7, else it stays", "`right_N`"),
        "buy": ("`sum` is the selection; loses on 7, else it stays", "`buy_N`"),
        "lay": ("`sum` is 7; loses on the selection, else it stays", "`lay_N`"),
    },
}
"""By game and kind of bet: where it wins, by members of the outcome, and the key of its odds."""
_SHOWN = 13
"""Selections that are written out; where there are more, the first and the last of them."""


def offered() -> dict[str, Any]:
    """By rulebook, variant and kind every selection."""
    return {
        name: {
            "game": book.book.game,
            "names": NAMES[book.book.game],
            "digest": book.digest,
            "variants": {
                variant: {kind: list(map(list, selections)) for kind, selections in kinds.items()}
                for variant, kinds in _kinds(book).items()
            },
        }
        for name, book in ((name, load_rulebook(name)) for name in shipped_rulebooks())
    }


def told() -> str:
    """A table a game."""
    return "\n\n".join(_table(load_rulebook(name)) for name in shipped_rulebooks())


def _kinds(book: LoadedRulebook) -> dict[str, dict[str, tuple[tuple[str, ...], ...]]]:
    game = book.book.game
    return {
        name: dict(BETS[game].offered(convert(tree, GAMES[game].variant)))
        for name, tree in book.book.variants.items()
    }


def _table(book: LoadedRulebook) -> str:
    game = book.book.game
    known: dict[str, tuple[tuple[str, ...], ...]] = {}
    for kinds in _kinds(book).values():
        for kind, selections in kinds.items():
            known.setdefault(kind, selections)
    names = ", ".join(f"{name} ({language})" for language, name in NAMES[game].items())
    lines = [
        f"#### Bets of `{game}`",
        "",
        f"On displays: {names}.",
        "",
        "| kind | selections | wins where | odds by |",
        "|---|---|---|---|",
    ]
    for kind, selections in known.items():
        where, key = WINS[game][kind]
        lines.append(f"| `{kind}` | {_selections(selections)} | {where} | {key} |")
    return "\n".join(lines)


def _selections(selections: tuple[tuple[str, ...], ...]) -> str:
    if selections == ((),):
        return "none"
    texts = [", ".join(one) if len(one) == 1 else f"[{', '.join(one)}]" for one in selections]
    if len(texts) <= _SHOWN:
        return "; ".join(f"`{text}`" for text in texts)
    return f"`{texts[0]}`, `{texts[1]}`, `{texts[2]}` ... `{texts[-1]}` ({len(texts)} of them)"
