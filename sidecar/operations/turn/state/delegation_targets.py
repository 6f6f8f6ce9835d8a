"""Whom a sub-agent is told that it may delegate to."""

from sidecar.core.binding.surface import Surface
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.delegation import whom_to_ask
from sidecar.policy.protocols import DelegateTool


def delegates_of(contract: Contract, surface: Surface) -> tuple[DelegateTool, ...]:
    """Return them in the surface's order; `Delegate` decides anew when one is asked."""
    return tuple(
        DelegateTool(tool.name, tool.description, tool.arguments_schema_json) for tool in whom_to_ask(contract, surface)
    )
