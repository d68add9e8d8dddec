"""`make rig-test`: the Debian package in a whole machine: a real kernel, real USB, and power that fails."""
