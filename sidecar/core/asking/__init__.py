"""Questions that sub-agents ask back, their receipts, and their answers."""
