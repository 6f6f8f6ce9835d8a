"""Reads, writes, signs and verifies the record."""
