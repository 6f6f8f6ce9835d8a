"""The episode memory `in_process`: keeps conversations as long as the process lives."""

from sidecar.adapters.memory_in_process.memory import InProcessMemory, MemoryBounds
from sidecar.adapters.memory_in_process.plugin import IN_PROCESS_MEMORY, sidecar_episode_memories

__all__ = ["IN_PROCESS_MEMORY", "InProcessMemory", "MemoryBounds", "sidecar_episode_memories"]
