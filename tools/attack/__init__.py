"""Denial of service against the real daemon and the shipped broker, beside a healthy table: `make attack`."""
