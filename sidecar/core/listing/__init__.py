"""Lists of turns and episodes: their rows, derived from facts, and the changes since then."""
