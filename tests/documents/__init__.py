"""Every fenced block of the documents runs, or is held against what it shows."""
