"""The recorded messages of runners, and whether a turn that is replayed from them gives the same result."""
