"""Who may reach the sidecar over TLS, and how users are known."""
