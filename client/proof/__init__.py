"""Records from files: verified, and what they say about one another."""
