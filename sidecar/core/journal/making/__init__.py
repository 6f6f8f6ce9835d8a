"""Creates facts from marks of children and outcomes of calls."""
