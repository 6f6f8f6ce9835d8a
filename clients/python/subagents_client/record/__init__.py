"""What is on record, as values, and how a client reads and follows it."""
