"""Rollouts in memory: for demos, tests and single processes that may forget everything when they stop."""

from sidecar.adapters.rollout_memory.contents import RolloutsInMemory
from sidecar.adapters.rollout_memory.store import MemoryRollouts

__all__ = ["MemoryRollouts", "RolloutsInMemory"]
