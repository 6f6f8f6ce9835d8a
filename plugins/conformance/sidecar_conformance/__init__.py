"""The suites that every plugin of the dispatch sidecar runs against itself; loaded by pytest as a plugin."""
