"""Takes one step of a rollout: policies, gates, proofs, write."""
