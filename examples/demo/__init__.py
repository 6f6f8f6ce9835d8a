"""`make demo`: the sidecar with everything around it, and a conversation to watch."""
