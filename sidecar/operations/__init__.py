"""One file per thing a caller can ask for, and `ports.py`: what they need from outside."""
