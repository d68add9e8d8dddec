"""What operations see: health, metrics, upkeep, what halts a table."""
