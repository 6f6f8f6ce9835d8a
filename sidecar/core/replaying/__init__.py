"""What a runner sent, as it is kept, and whether a turn that is replayed from it comes to the same."""
