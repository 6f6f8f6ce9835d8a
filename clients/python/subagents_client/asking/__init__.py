"""Questions that sub-agents ask back, and their answers."""
