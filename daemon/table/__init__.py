"""A table at work: devices, engine, capture, what it shows, and how it comes back after a restart."""
