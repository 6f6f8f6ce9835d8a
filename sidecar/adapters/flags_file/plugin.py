"""What the flag backend `file` registers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.adapters.flags_file.backend import FileFlags
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec


def _made(settings: Mapping[str, Any]) -> FileFlags:
    return FileFlags(Path(settings["path"]), float(settings.get("poll_seconds", 0.5)))


FILE_FLAGS: Final = FlagBackendSpec(
    name="file",
    contract="flag-backend/1",
    summary="Flags from a JSON or TOML file, read again whenever its content changes",
    config_schema={
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "pattern": r"\.(json|toml)$",
                "description": "The file, ending in .json or .toml.",
            },
            "poll_seconds": {
                "type": "number",
                "minimum": 0.05,
                "maximum": 60,
                "description": "Seconds between two looks at the file; 0.5 unless said.",
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    capabilities=frozenset({"push"}),
    factory=_made,
)


@hookimpl
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `file`."""
    return [FILE_FLAGS]
