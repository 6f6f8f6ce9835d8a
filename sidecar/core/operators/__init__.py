"""Who operates the sidecar: roles, and the short-lived tokens that prove them."""
