"""`sidecar doctor`: checks a deployment before its start, or beside a running sidecar, and changes nothing."""

from sidecar.composition.doctor.examine import examine

__all__ = ["examine"]
