"""Drivers: one table of what can be plugged in; the table itself follows the protocols."""
