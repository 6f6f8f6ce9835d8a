"""What the Makefile calls: each module is one task."""
