"""docs/rounds.md shows the phases as the code has them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from dollyd.daemon.core.round import ACCEPTS, Phase

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "round_diagram.py"))
PAGE = (ROOT / "docs" / "rounds.md").read_text()


def test_the_page_is_what_the_tool_makes_of_it() -> None:
    assert TOOL["rendered"](PAGE) == PAGE, "run: python tools/round_diagram.py"


def test_every_phase_can_be_reached_and_left() -> None:
    edges = TOOL["transitions"]()
    assert {start for start, _ in edges} == set(Phase)
    assert {end for _, end in edges} == set(Phase)


def test_a_phase_is_left_by_what_it_accepts_only() -> None:
    edges = TOOL["transitions"]()
    for (start, _), brought_by in edges.items():
        for name in brought_by:
            event = TOOL["EVENTS"][name.split(" = ")[0]]
            made = event(TOOL["Table"](), TOOL["GameRef"]("wheel", "s1", "001"))
            assert type(made) in ACCEPTS[start], (start, name)


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="substring not found"):
        TOOL["rendered"]("# nothing here")
