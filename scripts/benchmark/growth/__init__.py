"""What grows with use, and how: memory, CPU time and files over dispatches, definitions, open turns and the record."""
