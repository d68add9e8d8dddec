"""The machine below us: clock, disk, log, service manager, supervised tasks, terminal."""
