"""The context of a call: what a child needs from its caller, and what its runner gets.

The caller is a dispatch or a delegating child.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol

from sidecar.core.binding.surface import Surface
from sidecar.core.dispatching.plan import PlannedCall
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.delegation import delegate_card
from sidecar.core.identifiers import AttemptId, CallId, DispatchId
from sidecar.operations.deadlines import Deadlines
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ready_list import ReadyList
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.trace_context import TraceContext
from sidecar.policy.protocols import DelegateTool, InheritedContext, RunRequest
from subagents_errors import CallFailure


class CallContext(Protocol):
    """One or several calls whose caller waits for them.

    Attributes:
        dispatch_id: the dispatch that the calls belong to.
        trace: the parent of the attempts' spans.
        settle_at, record_by: of the loop's clock: when every call is stopped, and until when outcomes may be recorded.
        ready: the next steps of its calls.
        deadlines: of the dispatch.
    """

    turn: Turn
    dispatch_id: DispatchId
    trace: TraceContext
    settle_at: float
    record_by: float
    ready: ReadyList
    deadlines: Deadlines

    def stop_of(self, call_id: CallId) -> FirstResult[CallFailure]:
        """Return what stops one call."""

    def inherited_of(self, call_id: CallId) -> InheritedContext:
        """Return what the sub-agent of a call is given of the turn."""

    def drains(self) -> None:
        """A drain begins to take the ready steps."""

    def lose(self) -> None:
        """Stop the work, because another sidecar has taken it over."""

    @property
    def status(self) -> Callable[[Child, str, Mapping[str, str]], None]:
        """The receiver of a child's progress reports; called with the type of the report and its attributes."""


def request_of(
    child: Child, planned: PlannedCall, context: CallContext, attempt_id: AttemptId, grant: str, now: float
) -> RunRequest:
    """Return what the runner is given."""
    card, surface = child.tool.card, context.turn.surface
    return RunRequest(
        child_id=child.child_id,
        attempt_id=attempt_id,
        attempt=child.attempts,
        card=card,
        arguments_json=planned.arguments_json,
        context=context.inherited_of(child.call_id),
        prompt_prefix=surface.prompt_prefix_of(card),
        prompt_suffix=context.turn.prompt_suffix,
        contract_json=child.contract_json,
        grant=grant,
        timeout=timedelta(seconds=max(0.0, child.ends_at - now)),
        trace_headers=child.trace.headers if child.trace.traceparent else {},
        delegates=delegates_of(child.contract, surface) if child.contract.permissions.can_spawn_children else (),
        continuation=child.continues,
    )


def delegates_of(contract: Contract, surface: Surface) -> tuple[DelegateTool, ...]:
    """Return the possible delegates of a sub-agent, in the surface's order; `Delegate` decides again for each call."""
    return tuple(
        [
            DelegateTool(tool.name, tool.description, tool.arguments_schema_json)
            for tool in delegate_card(contract, surface)
        ]
    )
