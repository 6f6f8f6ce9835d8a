"""Pure decisions: no I/O, no clock, no randomness, no await."""
