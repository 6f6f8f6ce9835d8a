"""The one place that builds objects and joins them: `running.py` builds, `process.py` runs it as a process."""
