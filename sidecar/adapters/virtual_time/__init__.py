"""Time that passes at once: for replays of recorded turns, and for the simulation."""

from sidecar.adapters.virtual_time.loop import Chooser, Deadlock, InOrder, Runaway, Trace, VirtualLoop, simulate

__all__ = ("Chooser", "Deadlock", "InOrder", "Runaway", "Trace", "VirtualLoop", "simulate")
