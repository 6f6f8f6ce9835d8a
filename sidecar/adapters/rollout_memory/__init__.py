"""Rollouts in memory: for demos, tests and single processes whose rollouts may be lost when they stop."""

from sidecar.adapters.rollout_memory.contents import RolloutsInMemory
from sidecar.adapters.rollout_memory.store import MemoryRollouts

__all__ = ["MemoryRollouts", "RolloutsInMemory"]
