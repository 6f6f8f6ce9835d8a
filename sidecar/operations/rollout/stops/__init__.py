"""Kills and ramp-downs: they take effect first and are recorded afterwards."""
