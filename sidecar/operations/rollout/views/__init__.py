"""What binds and operators read of rollouts."""
