"""Rollouts of several replicas on one store, and beside them a model of the rules that knows nothing of the sidecar."""
