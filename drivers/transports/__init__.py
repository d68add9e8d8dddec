"""Transports: the only code of the drivers that touches a file descriptor."""
