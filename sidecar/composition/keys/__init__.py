"""Keys that change while the sidecar runs."""
