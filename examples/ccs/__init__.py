"""A reference data service (CCS): what the sidecar's tool gateway talks to in the demo and in the tests.

Real HTTP, believable data, and switches for every way a data service can be wrong. Not for production.
"""
