"""Scores of calls, and the statistics that compare the arms of a ramp."""
