"""The steps of a rollout that operators and automation request, and the views that binds read."""
