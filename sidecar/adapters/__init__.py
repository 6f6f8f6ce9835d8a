"""One folder per external system, one port each."""
