"""What turns cost, in exact counts; what they take in time is for the benchmark."""
