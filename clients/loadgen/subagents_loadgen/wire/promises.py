"""Checks whether responses keep the promises of the contract; pure functions of messages.

A broken promise is a *violation*. A failed RPC or call is no violation if it is reported correctly.
"""

from collections.abc import Iterable, Sequence

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2, surface_pb2

NO_RESULT = "the stream ended without a result"
RUN = frozenset({outcome_pb2.OUTCOME_SUCCEEDED, outcome_pb2.OUTCOME_DEGRADED})
STOPPED = frozenset({outcome_pb2.OUTCOME_FAILED, outcome_pb2.OUTCOME_NOT_STARTED})


class StreamCheck:
    """Checks the frames of one dispatch, over all its streams.

    Args:
        request: request of the dispatch.
        cap: fan-out cap of the surface.

    Attributes:
        violations: the violations, in the order of discovery.
        result: result of the dispatch; None until it was received.
        sequence: newest sequence number, after which a resumed stream begins.
    """

    def __init__(self, request: pb.DispatchRequest, cap: int) -> None:
        self._request = request
        self._cap = cap
        self._fresh = True
        self._settled: dict[str, outcome_pb2.CallOutcome] = {}
        self.violations: list[str] = []
        self.result: pb.DispatchResult | None = None
        self.sequence = 0

    def resumed(self) -> None:
        """Expect a new stream, which begins with a snapshot, and repeats the result if there was one."""
        self._fresh = True
        self.result = None

    def take(self, frame: pb.DispatchFrame) -> None:
        """Check the next frame."""
        if self.result is not None:
            self.violations.append("a frame came after the result")
        if frame.HasField("snapshot") != self._fresh:
            self.violations.append("the first frame has no snapshot" if self._fresh else "a snapshot came twice")
        elif self._fresh:
            self._take_snapshot(frame.snapshot)
        self._fresh = False
        for event in frame.events:
            self._take_event(event)
        if frame.HasField("result"):
            self.take_result(frame.result)

    def _take_snapshot(self, snapshot: pb.DispatchSnapshot) -> None:
        if snapshot.dispatch_id != self._request.dispatch_id:
            self.violations.append("the snapshot is of another dispatch")
        if [one.call_id for one in snapshot.calls] != _ids(self._request.calls):
            self.violations.append("the snapshot does not show the calls in emission order")

    def _take_event(self, event: pb.DispatchEvent) -> None:
        if event.sequence <= self.sequence:
            self.violations.append("sequences of events do not ascend")
        self.sequence = max(self.sequence, event.sequence, event.gap.to_sequence)
        changed = event.state_changed
        if event.WhichOneof("kind") == "state_changed" and changed.state == pb.CALL_STATE_SETTLED:
            if event.call_id in self._settled:
                self.violations.append("a call settled twice")
            self._settled[event.call_id] = changed.outcome
            if changed.outcome.call_id != event.call_id:
                self.violations.append("a call settled without its outcome")

    def take_result(self, result: pb.DispatchResult) -> None:
        """Check the outcomes of a result."""
        self.result = result
        self.violations += outcome_violations(self._request.calls, result.outcomes, self._cap)
        by_call = {one.call_id: one for one in result.outcomes}
        if any(by_call.get(call_id, outcome) != outcome for call_id, outcome in self._settled.items()):
            self.violations.append("an event and the result differ in an outcome")

    def ended(self, cancelled: str = "") -> None:
        """Check that nothing is missing at the end of the last stream.

        Args:
            cancelled: id of the call that the server reported as cancelled; empty: none.
        """
        if self.result is None:
            self.violations.append(NO_RESULT)
        elif cancelled and not any(one.call_id == cancelled and one.outcome in STOPPED for one in self.result.outcomes):
            self.violations.append("a cancelled call ended as if it had not been")


def outcome_violations(
    calls: Sequence[pb.ToolCall], outcomes: Sequence[outcome_pb2.CallOutcome], cap: int
) -> Iterable[str]:
    """Yield what is wrong with the outcomes of a dispatch: one for each call, in emission order, each explained."""
    asked, answered = _ids(calls), _ids(outcomes)
    if asked != answered:
        if sorted(asked) == sorted(answered):
            yield "outcomes are not in emission order"
        elif len(set(answered)) < len(answered):
            yield "a call has two outcomes"
        else:
            yield "a call has no outcome" if set(asked) - set(answered) else "an outcome belongs to no call"
    if any(one.outcome == outcome_pb2.OUTCOME_UNSPECIFIED for one in outcomes):
        yield "an outcome does not say how the call ended"
    if any(one.outcome != outcome_pb2.OUTCOME_SUCCEEDED and not one.status.reason for one in outcomes):
        yield "an outcome that is no success has no reason"
    if sum(one.attempts > 0 or one.outcome in RUN for one in outcomes) > cap:
        yield "more calls ran than the cap allows"


def bind_violations(response: pb.BindTurnResponse) -> Iterable[str]:
    """Yield what is wrong with a binding of a new turn."""
    surface: surface_pb2.Surface = response.surface
    names = [one.name for one in surface.sub_agent_tools]
    if response.state != pb.START_STATE_STARTED:
        yield "a new turn was said to be an old one"
    if not response.surface_token or not surface.binding_digest:
        yield "a binding has no token or no digest"
    if len(set(names)) < len(names) or not all(name.startswith("ask_") for name in names):
        yield "tools of the surface are not named as promised"
    if surface.fan_out_cap < 1:
        yield "the surface allows no call at all"


def end_violations(outcomes: Sequence[outcome_pb2.CallOutcome] | None, response: pb.EndTurnResponse) -> Iterable[str]:
    """Yield what is wrong with the end of a turn.

    Args:
        outcomes: outcomes of the turn's dispatches; None: unknown, because an RPC failed.
        response: response to `EndTurn`.
    """
    if response.state != pb.START_STATE_STARTED:
        yield "the end of a turn was said to be an old one"
    if outcomes is None:
        return
    recorded = [(one.call_id, one.outcome) for one in response.routing_decision.calls]
    if recorded != [(one.call_id, one.outcome) for one in outcomes]:
        yield "the routing decision differs from the outcomes"


def _ids(things: Iterable[pb.ToolCall] | Iterable[outcome_pb2.CallOutcome]) -> list[str]:
    return [one.call_id for one in things]
