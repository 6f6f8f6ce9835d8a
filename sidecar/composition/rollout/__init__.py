"""Builds the rollout: store, flag writers, audit sinks."""
