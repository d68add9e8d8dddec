"""Plays the host against a maker's device and says which clauses of docs/protocols/tlp-1.md it keeps."""
