"""A small settlement service: signed records in, payouts out."""
