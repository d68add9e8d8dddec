"""An evening in which everything happens that a house can meet: `make endure`."""
