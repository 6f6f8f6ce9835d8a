"""Registers gate client `http`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import GateClientSpec
from sidecar_gates_http.client import HttpGates
from sidecar_gates_http.settings import SCHEMA, settings_from


def http_gates(settings: Mapping[str, Any]) -> HttpGates:
    """Return a client. Raises `ValueError`, `OSError`."""
    return HttpGates(settings_from(settings))


@hookimpl
def sidecar_gate_clients() -> Sequence[GateClientSpec]:
    """Offer `http`."""
    return [
        GateClientSpec(
            name="http",
            contract="gate-client/1",
            summary="asks a gate service over HTTP",
            config_schema=SCHEMA,
            factory=http_gates,
        )
    ]
