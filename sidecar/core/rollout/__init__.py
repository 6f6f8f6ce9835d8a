"""The rollout of a definition: its state, its ramp, the users it serves, and every step of an operator (PF1)."""
