"""The bench: `python -m tools.bench`. Figures of one run on one machine, held against the targets."""
