"""How the commands take their parameters."""
