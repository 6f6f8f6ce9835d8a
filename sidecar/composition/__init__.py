"""The one place that builds and connects objects: `running.py` builds, `process.py` runs the result as a process."""
