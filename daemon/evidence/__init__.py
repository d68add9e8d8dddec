"""Evidence files: which records, with which texts, written as one file."""
