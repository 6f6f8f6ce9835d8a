"""A running delegation, as seen by the child that executes it.

`delegate` creates it when the tool gateway receives a call of a sub-agent by a sub-agent. `run_child` executes the
delegated child with this object as its call context, in place of a dispatch.
"""

from collections.abc import Mapping
from datetime import datetime

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.plan import PlannedCall
from sidecar.core.identifiers import CallId, ChildId
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ready_list import ReadyList
from sidecar.operations.turn.child.call_context import CallContext
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.inherited_context import with_context
from sidecar.operations.turn.state.ledger import Delegation
from sidecar.policy.protocols import InheritedContext
from subagents_errors import CallFailure


class DelegatedCall:
    """The call context of a delegated child.

    Attributes:
        planned: the one call.
        child_id: id of the delegated child; also its key in the slot queues.
        turn: the turn of the delegating child.
        settle_at: the end of the delegating attempt, or earlier.
        record_by: the time until which outcomes may be recorded, as for the dispatch.
        lenders: keys, in the slot queues, of the calls that wait for this one; it may use the slots and data that they
            hold.
        delegation: signals that the call is stopped, and that its child is closed.
        dispatch_id: the dispatch that the topmost call belongs to.
        trace: the context of the delegating attempt.
        ready, deadlines: its own steps, and the deadlines of the dispatch.
        finished: settles with the child's outcome, or with the defect that prevented one.
    """

    def __init__(
        self,
        planned: PlannedCall,
        *,
        context: CallContext,
        parent: Child,
        settle_at: float,
        lenders: tuple[str, ...],
    ) -> None:
        """Begin; the call is stopped at `settle_at` at the latest."""
        # `Delegate` creates the child's id first and uses it as the id of the call.
        self.child_id, self.lenders = ChildId(planned.call.call_id), lenders
        self.turn, self.record_by = context.turn, context.record_by
        self.settle_at = settle_at
        self.delegation = Delegation()
        self._context, self._parent, self.planned = context, parent, planned
        self.dispatch_id, self.trace = context.dispatch_id, parent.trace
        # A list of its own: `finished` closes it, and the list of the dispatch must stay open.
        self.ready, self.deadlines = ReadyList(), context.deadlines
        self.finished: FirstResult[CallOutcome | Exception] = FirstResult()
        # A closed list ends the drain of this delegation. Without it, the drain would wait for steps for ever.
        self.finished.on_settled(lambda _: self.ready.close())
        # Its own deadline: the parent's attempt may end long before the dispatch, and the delegation must end with it.
        self._limit = self.deadlines.at(settle_at, self.delegation.cancel, CallFailure.JOIN_DEADLINE)

    def settled(self, outcome: CallOutcome, _: datetime) -> None:
        """Note the child's outcome."""
        self.finished.settle(outcome)

    def give_up(self, _: CallId, defect: Exception) -> None:
        """End the delegation after a defect; its child is closed with the turn."""
        self.finished.settle(defect)

    def drains(self) -> None:
        """Do nothing when a drain takes steps: only a dispatch has listeners, which then send earlier events first."""

    def stop_of(self, call_id: CallId) -> FirstResult[CallFailure]:
        """Return what stops the one call."""
        return self.delegation.stop

    def inherited_of(self, call_id: CallId) -> InheritedContext:
        """Return the delegating child's context, with the `prior_context` of its call if the call has one."""
        return with_context(self._context.inherited_of(self._parent.call_id), self.planned)

    def status(self, child: Child, event_type: str, attributes: Mapping[str, str]) -> None:
        """Report progress under the topmost call, because the client knows only that call. Source: PC2-FR-13.

        Each level reports it as progress of its parent, up to the dispatch.
        """
        self._context.status(self._parent, event_type, attributes)

    def lose(self) -> None:
        """Stop the whole dispatch: another sidecar has taken it over."""
        self._context.lose()

    def end(self) -> None:
        """End the call."""
        self._limit.cancel()
        self.delegation.end()
