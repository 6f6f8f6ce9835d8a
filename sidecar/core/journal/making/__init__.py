"""What operations make facts of: marks of children, outcomes of calls."""
