"""The broker: one connection, what is published over it, what is heard on it."""
