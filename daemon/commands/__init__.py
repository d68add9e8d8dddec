"""What people order: signed commands, judged and told to the tables."""
