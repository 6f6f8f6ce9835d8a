"""A reference gate service: what the gate client `http` asks in the tests, and by hand.

Real HTTP, and switches for every way a gate service can be wrong. It evaluates nothing. Not for production.
"""
