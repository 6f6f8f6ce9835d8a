"""Lists of turns and episodes: their rows, derived from facts, and what has changed since they were derived."""
