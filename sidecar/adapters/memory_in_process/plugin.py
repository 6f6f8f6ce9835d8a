"""What the episode memory `in_process` registers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.adapters.memory_in_process.memory import InProcessMemory, MemoryBounds
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import EpisodeMemorySpec


def _made(settings: Mapping[str, Any]) -> InProcessMemory:
    return InProcessMemory(MemoryBounds(**settings))


IN_PROCESS_MEMORY: Final = EpisodeMemorySpec(
    name="in_process",
    contract="episode-memory/1",
    summary="Conversations in memory, bounded; forgotten when the process stops",
    config_schema={
        "type": "object",
        "properties": {
            "episodes": {"type": "integer", "minimum": 1, "description": "Most episodes; default 10000."},
            "turns": {"type": "integer", "minimum": 1, "description": "Most turns of one episode; default 1000."},
            "total_bytes": {"type": "integer", "minimum": 1, "description": "Most bytes of all; default 256 MiB."},
        },
        "additionalProperties": False,
    },
    factory=_made,
)


@hookimpl
def sidecar_episode_memories() -> Sequence[EpisodeMemorySpec]:
    """Offer `in_process`."""
    return [IN_PROCESS_MEMORY]
