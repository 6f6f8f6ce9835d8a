"""Inputs of an evaluation: the golden set, the measured configuration, and cases sampled from the record."""
