"""The second box: it keeps what was published, and notices if it changes."""
