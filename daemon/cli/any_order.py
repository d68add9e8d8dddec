"""Options of a group of commands count wherever they stand, before the command's name or behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperGroup


class AnyOrder(TyperGroup):
    """Takes its own options from behind the command's name too; no command below may have one of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does, with the group's own options moved to the front."""
        own = _values(self.params)
        below = _values(one for command in self.commands.values() for one in command.params)
        mine: list[str] = []
        others: list[str] = []
        waiting = list(args)
        while waiting and waiting[0] != "--":
            word = waiting.pop(0)
            name, equals, _ = word.partition("=")
            side = mine if name in own else others
            side.append(word)
            takes = {**below, **own}.get(name, 0) if not equals else 0
            side += waiting[:takes]
            del waiting[:takes]
        return super().parse_args(ctx, [*mine, *others, *waiting])


def _values(parameters: Iterable[Any]) -> dict[str, int]:
    """How many words follow each option, by its name; `--help` belongs to the command before it."""
    return {
        name: 0 if one.is_flag else one.nargs
        for one in parameters
        if one.param_type_name == "option"
        for name in (*one.opts, *one.secondary_opts)
        if name != "--help"
    }
