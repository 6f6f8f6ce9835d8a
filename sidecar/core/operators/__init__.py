"""Operators of the sidecar: their roles, and the short-lived tokens that prove them."""
