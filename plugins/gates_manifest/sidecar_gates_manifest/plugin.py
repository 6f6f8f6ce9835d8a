"""Registers gate client `manifest`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import GateClientSpec
from sidecar_gates_manifest.client import ManifestGates

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The manifest, e.g. `config/evaluation_manifest.yaml`."},
        "accept_offline": {
            "type": "boolean",
            "default": False,
            "description": "Whether results of a stand-in for a model count; only for a demo.",
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


def manifest_gates(settings: Mapping[str, Any]) -> ManifestGates:
    """Return a client."""
    return ManifestGates(Path(settings["path"]), accept_offline=bool(settings.get("accept_offline", False)))


@hookimpl
def sidecar_gate_clients() -> Sequence[GateClientSpec]:
    """Offer `manifest`."""
    return [
        GateClientSpec(
            name="manifest",
            contract="gate-client/1",
            summary="reads thresholds and recorded results from evaluation_manifest.yaml",
            config_schema=SCHEMA,
            factory=manifest_gates,
        )
    ]
