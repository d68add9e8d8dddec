"""The pure core: rules, rounds, games and records. No I/O, no clock, no randomness, no logging."""
