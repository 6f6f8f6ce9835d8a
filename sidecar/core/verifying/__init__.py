"""What signed checkpoints cover, and what shows that the journal is not as they say."""
