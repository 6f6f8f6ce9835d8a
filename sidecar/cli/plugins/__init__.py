"""`sidecar plugins`: lists, examines and scaffolds plugins."""
