"""The configuration: files to checked values."""
