"""Simulated devices that speak real bytes. Never imported by production code, not in the wheel."""
