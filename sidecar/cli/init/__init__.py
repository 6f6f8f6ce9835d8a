"""`sidecar init`: writes a repository with one sub-agent and everything around it."""
