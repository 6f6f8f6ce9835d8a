"""What a runner is asked for one attempt, and how long it may take."""

from datetime import timedelta

from sidecar.core.binding.surface import Surface
from sidecar.core.definitions.cards.prompt import prefix_of
from sidecar.core.definitions.files.placeholders import filled
from sidecar.core.dispatching.plan import PlannedCall
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.delegation import whom_to_ask
from sidecar.core.identifiers import AttemptId
from sidecar.operations.turn.child.call_context import Errand
from sidecar.operations.turn.child.run_attempt import AttemptBounds
from sidecar.operations.turn.state.child import Child
from sidecar.policy.protocols import DelegateTool, RunRequest


def bounds_of(child: Child, settle_at: float, now: float) -> AttemptBounds:
    """Return when an attempt that begins now has to end; all calls of its dispatch are stopped at `settle_at`."""
    budgets, timeout_at = child.contract.budgets, now + child.contract.execution.attempt_timeout_ms / 1000
    return AttemptBounds(
        timeout_at=timeout_at if timeout_at <= settle_at else None,
        wall_clock_at=child.wall_clock_at,
        idle=None if budgets.idle_timeout_ms is None else budgets.idle_timeout_ms / 1000,
    )


def request_of(
    child: Child, planned: PlannedCall, errand: Errand, attempt_id: AttemptId, grant: str, now: float
) -> RunRequest:
    """Return what the runner is given."""
    card, surface = child.tool.card, errand.turn.surface
    return RunRequest(
        child_id=child.child_id,
        attempt_id=attempt_id,
        attempt=child.attempts,
        card=card,
        arguments_json=planned.arguments_json,
        context=errand.inherited_of(child.call_id),
        prompt_prefix=filled(prefix_of(card.blocks, surface.flags_on), surface.fan_out_cap),
        prompt_suffix=errand.turn.prompt_suffix,
        contract_json=child.contract_json,
        grant=grant,
        timeout=timedelta(seconds=max(0.0, child.ends_at - now)),
        trace_headers=child.trace.headers if child.trace.traceparent else {},
        delegates=delegates_of(child.contract, surface) if child.contract.permissions.can_spawn_children else (),
    )


def delegates_of(contract: Contract, surface: Surface) -> tuple[DelegateTool, ...]:
    """Return whom a sub-agent may delegate to, in the surface's order; `Delegate` decides anew when one is asked."""
    return tuple(
        [
            DelegateTool(tool.name, tool.description, tool.arguments_schema_json)
            for tool in whom_to_ask(contract, surface)
        ]
    )
