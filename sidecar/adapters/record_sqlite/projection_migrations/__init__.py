"""The schema of the rows of lists, step by step."""
