"""One delegated execution: its contract, its states, the order of its events (SX)."""
