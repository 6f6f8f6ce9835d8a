"""What the flag backend `memory` registers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.adapters.flags_memory.backend import MemoryFlags
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec


def _made(settings: Mapping[str, Any]) -> MemoryFlags:
    return MemoryFlags(settings.get("on", ()))


MEMORY_FLAGS: Final = FlagBackendSpec(
    name="memory",
    contract="flag-backend/1",
    summary="A fixed set of flags from the settings; nothing outside is asked",
    config_schema={
        "type": "object",
        "properties": {
            "on": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "description": "Names of the flags that are on; every other flag is off.",
            }
        },
        "additionalProperties": False,
    },
    capabilities=frozenset({"push"}),
    factory=_made,
)


@hookimpl
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `memory`."""
    return [MEMORY_FLAGS]
