"""The result of a dispatch, put together from the frames of one stream, as a client does."""

from collections.abc import Iterable

from subagents.dispatch.v1 import dispatch_pb2 as pb


def whole_result(frames: Iterable[pb.DispatchFrame]) -> pb.DispatchResult:
    """Return the result with the answers that events of the same stream have carried; empty if there is no result.

    Raises:
        AssertionError: an answer was sent twice, or a call settled with the outcome of another one.
    """
    told, result = {}, pb.DispatchResult()
    for frame in frames:
        for event in frame.events:
            if event.state_changed.HasField("outcome"):
                told[event.call_id] = event.state_changed.outcome
                assert event.state_changed.outcome.call_id == event.call_id, event
        result.CopyFrom(frame.result)
    for outcome in result.outcomes:
        if outcome.call_id in told:
            assert not outcome.narration, f"sent twice: {outcome}"
            assert not outcome.components, f"sent twice: {outcome}"
            outcome.CopyFrom(told[outcome.call_id])
    return result
