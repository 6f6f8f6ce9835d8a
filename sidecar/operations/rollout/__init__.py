"""The steps of a rollout, as operators and automation ask for them, and what binds read of it."""
