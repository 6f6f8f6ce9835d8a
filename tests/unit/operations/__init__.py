"""What the operations are made of, by itself."""
