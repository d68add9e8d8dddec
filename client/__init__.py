"""What downstream imports: verification of records. No hardware dependencies."""
