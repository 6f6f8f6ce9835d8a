"""One file per operation that a caller can request. `ports.py` declares what the operations need from other systems."""
