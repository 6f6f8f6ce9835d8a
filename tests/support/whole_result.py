"""The result of a dispatch, held against the events of its stream."""

from collections.abc import Iterable

from subagents.dispatch.v1 import dispatch_pb2 as pb


def whole_result(frames: Iterable[pb.DispatchFrame]) -> pb.DispatchResult:
    """Return the result of a stream; empty if there is none.

    Raises:
        AssertionError: an event carried another outcome than the result, or that of another call.
    """
    told, result = {}, pb.DispatchResult()
    for frame in frames:
        for event in frame.events:
            if event.state_changed.HasField("outcome"):
                told[event.call_id] = event.state_changed.outcome
                assert event.state_changed.outcome.call_id == event.call_id, event
        result.CopyFrom(frame.result)
    for outcome in result.outcomes:
        assert outcome == told.get(outcome.call_id, outcome)
    return result
