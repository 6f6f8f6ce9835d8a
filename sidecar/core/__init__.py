"""What is decided, without any outside: no I/O, no clock, no randomness, no await."""
