from collections.abc import Callable

import pytest

from clients.loadgen.tests.support.answers import a_bound_turn, a_frame, a_request, an_ended_turn, an_event, an_outcome
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2
from subagents_loadgen.wire.promises import StreamCheck, bind_violations, end_violations

Spoil = Callable[[list[pb.DispatchFrame]], object]


def honest() -> list[pb.DispatchFrame]:
    """Return the frames of a dispatch of three calls, cap 2: one answers, one fails, one is dropped."""
    return [
        a_frame(snapshot=["call-0", "call-1", "call-2"]),
        a_frame(events=[an_event(1, "call-0", outcome_pb2.OUTCOME_SUCCEEDED), an_event(2, "call-1")]),
        a_frame(
            outcomes=[
                an_outcome("call-0"),
                an_outcome("call-1", outcome_pb2.OUTCOME_FAILED),
                an_outcome("call-2", outcome_pb2.OUTCOME_DROPPED),
            ]
        ),
    ]


def found(frames: list[pb.DispatchFrame], cancelled: str = "", cap: int = 2) -> list[str]:
    """Return the violations."""
    check = StreamCheck(a_request(3), cap)
    for frame in frames:
        check.take(frame)
    check.ended(cancelled)
    return check.violations


def test_an_honest_stream_breaks_nothing() -> None:
    """Snapshot, events, result."""
    assert found(honest()) == []


SPOILT: dict[str, Spoil] = {
    "the stream ended without a result": lambda frames: frames.pop(),
    "a frame came after the result": lambda frames: frames.append(pb.DispatchFrame()),
    "the first frame has no snapshot": lambda frames: frames.pop(0),
    "a snapshot came twice": lambda frames: frames[1].snapshot.CopyFrom(frames[0].snapshot),
    "the snapshot is of another dispatch": lambda frames: setattr(frames[0].snapshot, "dispatch_id", "other"),
    "the snapshot does not show the calls in emission order": lambda frames: frames[0].snapshot.calls.reverse(),
    "sequences of events do not ascend": lambda frames: frames[1].events.reverse(),
    "a call settled twice": lambda frames: frames[1].events.append(
        an_event(3, "call-0", outcome_pb2.OUTCOME_SUCCEEDED)
    ),
    "outcomes are not in emission order": lambda frames: frames[2].result.outcomes.reverse(),
    "a call has no outcome": lambda frames: frames[2].result.outcomes.pop(),
    "a call has two outcomes": lambda frames: frames[2].result.outcomes.append(frames[2].result.outcomes[0]),
    "an outcome belongs to no call": lambda frames: frames[2].result.outcomes.append(an_outcome("call-9")),
    "an outcome does not say how the call ended": lambda frames: frames[2].result.outcomes[1].ClearField("outcome"),
    "an outcome that is no success has no reason": lambda frames: frames[2].result.outcomes[1].ClearField("status"),
    "an event and the result differ in an outcome": lambda frames: setattr(
        frames[2].result.outcomes[0], "outcome", outcome_pb2.OUTCOME_FAILED
    ),
    "a call settled without its outcome": lambda frames: frames[1].events[0].state_changed.ClearField("outcome"),
}


@pytest.mark.parametrize("violation", SPOILT)
def test_a_spoilt_stream_is_found_out(violation: str) -> None:
    """One broken promise each."""
    frames = honest()
    SPOILT[violation](frames)
    assert violation in found(frames)


def test_more_running_calls_than_the_cap_are_found_out() -> None:
    """Two ran where one was allowed."""
    assert found(honest(), cap=1) == ["more calls ran than the cap allows"]


def test_a_cancelled_call_must_not_succeed() -> None:
    """The server said that it cancelled it; a failed one is as promised."""
    assert found(honest(), cancelled="call-0") == ["a cancelled call ended as if it had not been"]
    assert found(honest(), cancelled="call-1") == []


def test_a_resumed_stream_begins_anew_and_goes_on_after_the_newest_event() -> None:
    """A snapshot again, then only newer events; an older one is found out."""
    for sequence, violations in ((3, []), (2, ["sequences of events do not ascend"])):
        check = StreamCheck(a_request(3), 2)
        for frame in honest()[:2]:
            check.take(frame)
        check.resumed()
        for frame in (honest()[0], a_frame(events=[an_event(sequence, "call-1")]), honest()[2]):
            check.take(frame)
        check.ended()
        assert (check.violations, check.sequence) == (violations, max(sequence, 2))


def test_a_gap_counts_as_seen() -> None:
    """Events 1 to 7 are no longer kept; the next is 8."""
    check = StreamCheck(a_request(3), 2)
    check.take(honest()[0])
    check.take(a_frame(events=[pb.DispatchEvent(sequence=1, gap=pb.Gap(from_sequence=1, to_sequence=7))]))
    assert check.sequence == 7


def test_an_honest_binding_breaks_nothing_and_a_spoilt_one_is_found_out() -> None:
    """Old instead of new, no token, a strange name, no room for a call."""
    assert list(bind_violations(a_bound_turn())) == []
    spoilt = a_bound_turn()
    spoilt.state = pb.START_STATE_ATTACHED
    spoilt.surface_token = ""
    spoilt.surface.sub_agent_tools[0].name = "shop"
    spoilt.surface.fan_out_cap = 0
    assert len(list(bind_violations(spoilt))) == 4


def test_the_routing_decision_has_to_tell_what_was_answered() -> None:
    """The same calls, another outcome; without knowledge of the outcomes nothing is said."""
    outcomes = [an_outcome("call-0")]
    other = [an_outcome("call-0", outcome_pb2.OUTCOME_FAILED)]
    assert list(end_violations(outcomes, an_ended_turn(outcomes))) == []
    assert list(end_violations(outcomes, an_ended_turn(other))) == ["the routing decision differs from the outcomes"]
    assert list(end_violations(None, an_ended_turn(other))) == []
    assert list(end_violations(None, pb.EndTurnResponse())) == ["the end of a turn was said to be an old one"]
