"""What the rollout needs of a store, and the rules that every store applies."""
