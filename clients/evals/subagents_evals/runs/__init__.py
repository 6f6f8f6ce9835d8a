"""Runs evaluations: a sidecar with scripted sub-agents, an orchestrator for each case, and the offline router."""
