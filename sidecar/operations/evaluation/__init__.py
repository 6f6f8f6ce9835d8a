"""Records scores of calls, and counts what the record says of the arms of a ramp."""
