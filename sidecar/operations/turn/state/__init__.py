"""The state of a turn, its dispatches and its children, which is changed nowhere else."""
