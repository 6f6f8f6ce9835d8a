"""Recorded runner messages, and the comparison of a replayed turn with the original."""
