"""Devices that speak TLP/1, the open table line protocol, sans-IO (docs/tlp-1.md)."""
