"""The daemon: a pure core, and a thin asynchronous shell around it."""
