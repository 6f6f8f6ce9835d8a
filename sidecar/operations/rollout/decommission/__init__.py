"""Takes a definition away for good, in five steps."""
