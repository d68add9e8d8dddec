"""What those who read the records ask of the node, and how far they are."""
