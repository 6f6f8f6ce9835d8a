"""`sidecar subagent`: operates sub-agents over the operator listener."""
