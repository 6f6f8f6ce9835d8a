"""Checks what is sent against the rules of the protos."""
