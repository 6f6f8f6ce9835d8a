"""Virtual time for tests of packages that may import nothing of the sidecar."""

from sidecar.adapters.virtual_time import Trace, VirtualLoop, simulate

__all__ = ["Trace", "VirtualLoop", "simulate"]
