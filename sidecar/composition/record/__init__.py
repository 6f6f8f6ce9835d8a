"""Opens the record, its files and its checkpoints."""
