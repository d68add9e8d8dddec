"""USB devices that are known by their numbers (devices part 5)."""

from __future__ import annotations

ADAPTERS = {
    ("0403", "6001"): "FTDI FT232R",
    ("0403", "6010"): "FTDI FT2232",
    ("0403", "6011"): "FTDI FT4232",
    ("0403", "6015"): "FTDI FT-X",
    ("067b", "2303"): "Prolific PL2303",
    ("067b", "23a3"): "Prolific PL2303GC",
    ("10c4", "ea60"): "Silicon Labs CP210x",
    ("1a86", "55d4"): "WCH CH9102",
    ("1a86", "7523"): "WCH CH340",
}
"""Serial adapters: anything may be behind them. Opening one does no harm."""
GENERATORS = {
    ("04d8", "f5fe"): "truerng",
    ("04d8", "ebb5"): "truerng",
    ("16d0", "0aa0"): "truerng",
    ("1d50", "6086"): "onerng",
    ("1d50", "60c6"): "chaoskey",
}
"""Generators, by their driver. They are never opened to find out: a speed is a command to some of them."""
