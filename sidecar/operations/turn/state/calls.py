"""The state of each call of one dispatch: waiting, running or settled, and what stops it.

`LiveDispatch` has one of these. `execute_dispatch` and `control_dispatch` read here which calls may still begin, and
which were cancelled.
"""

from collections.abc import Collection, Mapping, Sequence

from sidecar.core.dispatching.frames import CallSnapshot, CallState
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.plan import DispatchPlan
from sidecar.core.dispatching.questions import Continuation
from sidecar.core.identifiers import CallId, ChildId, Slot
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ports import Clock
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.transitions import IllegalTransition
from subagents_errors import CallFailure


class Calls:
    """The calls of one dispatch, including those that the plan settled.

    Attributes:
        places: the position of each call in the emission order.
        planned: calls that run or wait.
        outcomes: by place.
        stops: for each call without an outcome, the result that stops it when it settles.
        stopped: stopped calls with reason and time by the event loop's clock; for replays.
        busy_for: seconds during which at least one call ran.
        answers: at least one call answers a question.
        continuations: the work that each call with an answer continues, once it is known.
    """

    def __init__(self, request: DispatchRequest, plan: DispatchPlan, clock: Clock) -> None:
        self._request, self._clock = request, clock
        self._outcomes: dict[int, CallOutcome] = dict(plan.settled)
        self._stops: dict[CallId, FirstResult[CallFailure]] = {each.call.call_id: FirstResult() for each in plan.run}
        self._cancelled: set[CallId] = set()
        self._stopped: list[tuple[CallId, CallFailure, float]] = []
        self.outcomes: Mapping[int, CallOutcome] = self._outcomes
        self.stops: Mapping[CallId, FirstResult[CallFailure]] = self._stops
        self.stopped: Sequence[tuple[CallId, CallFailure, float]] = self._stopped
        self.places = {call.call_id: place for place, call in enumerate(request.calls)}
        self.planned = {each.call.call_id: each for each in plan.run}
        self.busy_for = 0.0
        self._busy_since = 0.0
        self._active = 0  # the number of running calls
        self.answers = False
        for call in request.calls:
            self.answers = self.answers or call.answering is not None
        self._continuations: dict[CallId, Continuation] = {}
        self.continuations: Mapping[CallId, Continuation] = self._continuations
        self._children: dict[CallId, ChildId] = {}
        self._slots: dict[CallId, Slot | None] = {each.call.call_id: each.tool.slot for each in plan.run}
        self._slots.update({each.call_id: each.sub_agent_id for each in plan.settled.values()})
        self._states = {
            call.call_id: CallState.SETTLED if place in plan.settled else CallState.WAITING
            for place, call in enumerate(request.calls)
        }

    @property
    def run(self) -> int:
        """The number of calls that have a child."""
        return len(self._children)

    def take_in(
        self,
        outcomes: Mapping[CallId, CallOutcome],
        children: Mapping[CallId, ChildId],
        cancelled: Collection[int] = (),
    ) -> None:
        """Set the recorded state of the calls, without reporting it as new events.

        Args:
            outcomes: by call.
            children: by call.
            cancelled: places of calls whose cancellation is on record.
        """
        self._children.update(children)
        for call_id, outcome in outcomes.items():
            place = self.places.get(call_id)
            if place is not None:
                self._outcomes[place] = outcome
                self._states[call_id] = CallState.SETTLED
                self._slots.setdefault(call_id, outcome.sub_agent_id)
                self._stops.pop(call_id, None)
        # After the outcomes: a call that has one is no longer in `_stops`, so a late cancellation cannot stop it.
        for call_id, place in self.places.items() if cancelled else ():
            if place in cancelled:
                self._cancelled.add(call_id)
                self.stop(call_id, CallFailure.CALL_CANCELLED)

    def refuse(self, outcome: CallOutcome) -> None:
        """Refuse a call that the plan allows."""
        self.take_in({outcome.call_id: outcome}, {})

    def continues(self, call_id: CallId, continuation: Continuation) -> None:
        """Set the work that a call continues."""
        self._continuations[call_id] = continuation

    def begin(self, child: Child) -> None:
        """Note that a waiting call runs as `child`."""
        if self._states[child.call_id] is not CallState.WAITING:
            raise IllegalTransition("begin", self._states[child.call_id])
        # Time during which several calls run counts once: the overhead of a dispatch is its duration minus `busy_for`.
        if self._active == 0:
            self._busy_since = self._clock.monotonic()
        self._active += 1
        self._children[child.call_id] = child.child_id
        self._states[child.call_id] = CallState.RUNNING

    def settle(self, outcome: CallOutcome) -> int:
        """Set the outcome of a call; return its place."""
        state, place = self._states[outcome.call_id], self.places[outcome.call_id]
        if state is CallState.SETTLED:
            raise IllegalTransition("settle", state)
        if state is CallState.RUNNING:
            self._active -= 1
            if self._active == 0:
                self.busy_for += self._clock.monotonic() - self._busy_since
        self._outcomes[place] = outcome
        self._states[outcome.call_id] = CallState.SETTLED
        # Last: an empty `stops` means that the dispatch can finish, so the outcome must be set by then.
        self._stops.pop(outcome.call_id, None)
        return place

    def stop(self, call_id: CallId, reason: CallFailure) -> bool:
        """Stop one call; return whether it was still running."""
        stop = self._stops.get(call_id)
        # The first reason counts: a call that the deadline has stopped is not reported as cancelled afterwards.
        if stop is None or not stop.settle(reason):
            return False
        self._stopped.append((call_id, reason, self._clock.monotonic()))
        return True

    def stop_all(self, reason: CallFailure) -> None:
        """Stop every call that has not settled, in emission order."""
        # A copy: a stopped call may settle at once and remove itself.
        for call_id in list(self._stops):
            self.stop(call_id, reason)

    def waits_for_cancel(self, call_id: CallId) -> bool:
        """Return whether a call was cancelled but has no outcome, and its cancellation is not known to be on record."""
        stop = self._stops.get(call_id)
        return stop is not None and stop.how is CallFailure.CALL_CANCELLED and call_id not in self._cancelled

    def cancel_recorded(self, call_id: CallId) -> None:
        """Note that the cancellation of a call is on record."""
        self._cancelled.add(call_id)

    def joined(self) -> tuple[CallOutcome, ...]:
        """Return the outcomes in emission order, in whatever order they arrived. Source: SX-50, TN-22."""
        # By place and not in the order of `_outcomes`, which is the order in which the calls settled.
        return tuple([self._outcomes[place] for place in range(len(self._request.calls))])

    def snapshot(self) -> tuple[CallSnapshot, ...]:
        """Return the states of the calls."""
        slots = self._slots
        return tuple(
            [
                CallSnapshot(call.call_id, slots.get(call.call_id), self._children.get(call.call_id), state)
                # `_states` was filled in the order of the request, and an update moves no key.
                for call, state in zip(self._request.calls, self._states.values(), strict=True)
            ]
        )
