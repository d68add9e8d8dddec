"""Figures, and the table that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `met` is None where there is no target."""

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def at_most(name: str, value: float, target: float, form: str) -> Figure:
    """A figure that must not be larger than its target."""
    return Figure(name, form.format(value), "<= " + form.format(target), value <= target)


def at_least(name: str, value: float, target: float, form: str) -> Figure:
    """A figure that must not be smaller than its target."""
    return Figure(name, form.format(value), ">= " + form.format(target), value >= target)


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds."""
    return quantiles(values, n=100, method="inclusive")[98]


def milliseconds(values_ns: Sequence[int]) -> str:
    """Median and p99 of times."""
    return f"median {median(values_ns) / 1e6:.2f} ms, p99 {p99(values_ns) / 1e6:.2f} ms"


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    verdicts = {True: "met", False: "MISSED", None: ""}
    names, values = (max(len(text) for text in column) for column in _columns(figures))
    targets = max(len(figure.target) for figure in figures)
    print(f"{'figure':{names}}  {'value':>{values}}  {'target':>{targets}}  verdict")
    for f in figures:
        print(f"{f.name:{names}}  {f.value:>{values}}  {f.target:>{targets}}  {verdicts[f.met]}")


def _columns(figures: Sequence[Figure]) -> tuple[list[str], list[str]]:
    return [figure.name for figure in figures], [figure.value for figure in figures]
