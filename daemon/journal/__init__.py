"""The durable record: store, writer, cursors, checks, retention."""
