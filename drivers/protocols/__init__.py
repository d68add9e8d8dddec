"""Wire protocols, one file each, sans-IO."""
