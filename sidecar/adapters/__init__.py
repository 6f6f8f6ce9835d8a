"""One folder per outside thing, one port each."""
