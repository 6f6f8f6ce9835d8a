"""What running a child needs to know of whoever asked for it: a dispatch, or a child that delegates."""

from collections.abc import Callable, Mapping
from typing import Protocol

from sidecar.core.identifiers import CallId, DispatchId
from sidecar.operations.deadlines import Deadlines
from sidecar.operations.first_result import Ending
from sidecar.operations.ready_list import ReadyList
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.trace_context import TraceContext
from sidecar.policy.protocols import InheritedContext
from subagents_errors import CallFailure


class Errand(Protocol):
    """One or several calls that somebody waits for.

    Attributes:
        dispatch_id: which dispatch it is part of.
        trace: what attempts belong to.
        settle_at, record_by: of the loop's clock: when every call is stopped, and until when outcomes may be recorded.
        ready: what is to be done next for its calls.
        deadlines: of the dispatch.
    """

    turn: Turn
    dispatch_id: DispatchId
    trace: TraceContext
    settle_at: float
    record_by: float
    ready: ReadyList
    deadlines: Deadlines

    def stop_of(self, call_id: CallId) -> Ending[CallFailure]:
        """Return what stops one call."""

    def inherited_of(self, call_id: CallId) -> InheritedContext:
        """Return what the sub-agent of a call is given of the turn."""

    def drains(self) -> None:
        """What was ready is being done."""

    def lose(self) -> None:
        """Give it up: the record says that another sidecar has gone on with it."""

    @property
    def status(self) -> Callable[[Child, str, Mapping[str, str]], None]:
        """What a child that reports progress is to call, with the type of the report and its attributes."""
