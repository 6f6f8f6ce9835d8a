"""The gate client `http`: asks a gate service, which `openapi.yaml` describes."""

from sidecar_gates_http.client import HttpGates
from sidecar_gates_http.settings import HttpGateSettings

__all__ = ["HttpGateSettings", "HttpGates"]
