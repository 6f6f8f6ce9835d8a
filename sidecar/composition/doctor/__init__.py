"""`sidecar doctor`: examines a deployment before it starts, or beside the sidecar that runs, and changes nothing."""

from sidecar.composition.doctor.examine import examine

__all__ = ["examine"]
