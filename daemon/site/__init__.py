"""What a site shows of itself on its topics, for a person who asks once."""
