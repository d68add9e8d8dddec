"""Records from a broker: verified, once, in order, without gaps."""
