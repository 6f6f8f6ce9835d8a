"""How the answers of `sidecar subagent` look on a screen and as JSON."""
