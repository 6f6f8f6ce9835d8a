"""Keys that change under a running sidecar."""
