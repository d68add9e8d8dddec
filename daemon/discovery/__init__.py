"""What is plugged in, who it is, and how it is written into the configuration."""
