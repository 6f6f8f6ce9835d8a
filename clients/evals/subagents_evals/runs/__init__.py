"""What is run: a sidecar with scripted sub-agents, the orchestrator over each case, the offline router."""
