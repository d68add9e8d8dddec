"""What is signed and said: records, envelopes, keys, topics, commands. It stands on nothing else of ours."""
