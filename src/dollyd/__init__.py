"""dollyd: the daemon that puts a marker on a physical result which nobody can move afterwards."""

__version__ = "0.1.0"
