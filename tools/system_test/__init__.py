"""`make system-test`: the Debian package in a real systemd, from its installation to its purge."""
