"""The context of a call: what a child needs from its caller, and the request to its runner.

The caller is a dispatch (`LiveDispatch`) or a delegating child (`DelegatedCall`). `run_child` and `run_attempt`
know only this protocol, so a child runs in the same way below either.
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
from sidecar.operations.trace_context import TraceContext
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.policy.protocols import DelegateTool, InheritedContext, RunRequest
from subagents_errors import CallFailure


class CallContext(Protocol):
    """What one caller provides to the calls that it waits for.

    Attributes:
        dispatch_id: the dispatch that the calls belong to.
        trace: the parent of the attempts' spans.
        settle_at: the time at which every call is stopped, by the event loop's clock.
        record_by: the time until which outcomes may be recorded, by the same clock.
        ready: the next steps of the calls.
        deadlines: the deadlines of the dispatch.
    """

    turn: Turn
    dispatch_id: DispatchId
    trace: TraceContext
    settle_at: float
    record_by: float
    ready: ReadyList
    deadlines: Deadlines

    def stop_of(self, call_id: CallId) -> FirstResult[CallFailure]:
        """Return the signal that stops the call; it is set once, and its value is the reason."""

    def inherited_of(self, call_id: CallId) -> InheritedContext:
        """Return the parts of the turn that the sub-agent of a call receives."""

    def drains(self) -> None:
        """React to a drain that begins to take ready steps, e.g. wake listeners before the store works."""

    def lose(self) -> None:
        """Stop the work: another sidecar has taken it over."""

    @property
    def status(self) -> Callable[[Child, str, Mapping[str, str]], None]:
        """The receiver of a child's progress reports; called with the type of the report and its attributes."""


def request_of(
    child: Child, planned: PlannedCall, context: CallContext, attempt_id: AttemptId, grant: str, now: float
) -> RunRequest:
    """Return the request to the runner.

    Args:
        child: the child that the attempt executes.
        planned: its call, with the arguments.
        context: of the call.
        attempt_id: of this attempt.
        grant: the key with which the attempt calls the tool gateway.
        now: the present time, by the event loop's clock.
    """
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
        # The rest and not the contract's limit: the dispatch may end before the attempt's own time is over.
        timeout=timedelta(seconds=max(0.0, child.ends_at - now)),
        # Without a trace id there is no trace that a host could continue, whatever the other headers say.
        trace_headers=child.trace.headers if child.trace.traceparent else {},
        delegates=delegates_of(child.contract, surface) if child.contract.permissions.can_spawn_children else (),
        continuation=child.continues,
    )


def delegates_of(contract: Contract, surface: Surface) -> tuple[DelegateTool, ...]:
    """Return the sub-agents that a sub-agent may delegate to, in the surface's order.

    This is a preview for the sub-agent: `Delegate` makes the decision for each call.
    """
    return tuple(
        [
            DelegateTool(tool.name, tool.description, tool.arguments_schema_json)
            for tool in delegate_card(contract, surface)
        ]
    )
