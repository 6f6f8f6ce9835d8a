"""The state of a turn, its dispatches and its children while the sidecar holds them."""
