"""Verifies the journal against signed checkpoints."""
