"""A node with eight tables, a broker and a consumer, and everything that may happen to them."""
