"""Settlement: every bet of both regulations, paid exactly, from verified records (`settle`)."""
