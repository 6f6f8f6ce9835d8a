"""The commands that check a configuration before it is merged."""
