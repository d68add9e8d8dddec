"""The node's keys on disk, and the trust file as the command line makes it."""
