"""What is kept of an attempt, read back; and what a comparison says."""

import msgspec
import pytest

from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Outcome
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, Slot
from sidecar.core.journal.attempt_frames import unpacked
from sidecar.core.replaying.comparison import compared
from sidecar.core.replaying.frames import (
    LARGEST,
    ComponentFrame,
    DelegationFrame,
    Effect,
    EndFrame,
    FinishedFrame,
    GatewayFrame,
    Narration,
    RecordedAttempt,
    Status,
    StoppedCall,
    UnexpectedFrame,
    UsageFrame,
    attempt_from_json,
    attempt_to_json,
)
from sidecar.operations.turn.state.recorded_frames import AttemptFrames
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    StatusReported,
    UsageReported,
)
from subagents_errors import CallFailure


def kept(*events: object, step: float = 0.001) -> RecordedAttempt:
    """Return what is kept of events that came one after the other, read back."""
    frames = AttemptFrames(AttemptId("a"), 1, 10.0)
    for place, event in enumerate(events):
        frames.add(event, 10.0 + place * step)
    return unpacked(frames.to_row(9.5, (StoppedCall("d", "c", "CALL_CANCELLED", 7),), ""), "")


def test_everything_that_comes_is_kept_with_its_time() -> None:
    """Each kind of event, what the gateway did, something that is no event; offsets in microseconds."""
    found = kept(
        StatusReported("looking", {"what": "offers"}),
        NarrationPart("ä"),
        ComponentMade("card", "{}", "[]"),
        UsageReported(3, 4),
        UsageReported(6, 8, 2),
        GatewayFrame(0, Effect.BARRED, "stock"),
        "prose",
        RunFinished(True),
    )
    assert found.frames == (
        Status(0, "looking", {"what": "offers"}),
        Narration(1000, "ä"),
        ComponentFrame(2000, "card", "{}", "[]"),
        UsageFrame(3000, 3, 4),
        UsageFrame(4000, 6, 8, 2),
        GatewayFrame(5000, Effect.BARRED, "stock"),
        UnexpectedFrame(6000, "str"),
        FinishedFrame(7000, True),
    )
    assert (found.began, found.stopped_calls[0].at, found.incomplete) == (500_000, 7, "")


def test_attempts_that_were_kept_before_cached_tokens_were_counted_are_read() -> None:
    """Frames without the last field, as sidecars of before wrote them; nothing is known of caches."""
    told = '{"version":1,"frames":[["usage",1,3,4],["delegation",2,"c",true,5,6,false]]}'

    assert attempt_from_json(told).frames == (UsageFrame(1, 3, 4), DelegationFrame(2, "c", True, 5, 6, False))


def test_what_came_in_the_same_moment_keeps_its_order() -> None:
    """Offsets always grow."""
    assert [frame.at for frame in kept(*[NarrationPart("x")] * 3, step=0.0).frames] == [0, 1, 2]


def test_how_a_runner_ended_is_kept() -> None:
    """Its own error with what it says of itself, anything else by its class."""
    frames = AttemptFrames(AttemptId("a"), 1, 0.0)
    for error in (None, RunnerError("away", transient=True, unreachable=True), ValueError("secret")):
        frames.runner_ended(error, 0.0)
    ends = unpacked(frames.to_row(0.0, (), ""), "").frames
    assert ends == (
        EndFrame(0, "ended", "", False, False),
        EndFrame(1, "error", "away", True, True),
        EndFrame(2, "raised", "ValueError", False, False),
    )


@pytest.mark.parametrize(
    "event",
    [NarrationPart("x" * (LARGEST + 1)), ComponentMade("c", "{}", "x" * LARGEST), NarrationPart("\ud800")],
    ids=["narration", "component", "no-text"],
)
def test_what_cannot_be_kept_is_said_to_be_incomplete(event: object) -> None:
    """Nothing of it is kept, nothing raises, and what comes later is not kept either."""
    found = kept(NarrationPart("before"), event, NarrationPart("after"))
    assert (found.frames, bool(found.incomplete)) == ((), True)


@pytest.mark.parametrize("text", ['{"version": 2, "frames": [["new", 1]]}', '{"frames": [["new", 1]]}', "{", "[]"])
def test_frames_of_another_version_or_broken_ones_are_refused(text: str) -> None:
    """With a sentence, and as `ValueError`."""
    with pytest.raises(ValueError, match="its frames"):
        attempt_from_json(text)


def test_what_is_kept_is_small() -> None:
    """Defaults are left out."""
    assert attempt_to_json(RecordedAttempt(frames=(FinishedFrame(5, False),))) == '{"frames":[["finished",5,false]]}'


def an_outcome(place: int, **fields: object) -> CallOutcome:
    """Return an outcome."""
    whole = CallOutcome(CallId(f"c{place}"), "ask_shop", Slot("shop"), ChildId("x"), place, Outcome.SUCCEEDED)
    return msgspec.structs.replace(whole, **fields)


def test_a_comparison_names_every_difference_and_nothing_else() -> None:
    """Child ids differ always; order, reason, attempts, texts and components do not."""
    component = Component("card", "{}", '{"a": 1}')
    before = an_outcome(0, answer=Answer("Hello you", (component,)))
    other = msgspec.structs.replace(component, component_data_json='{"a": 2}')
    now = an_outcome(0, child_id=ChildId("y"), attempts=2, answer=Answer("Hello there", (other,)))
    differences, notes = compared({DispatchId("d"): [before]}, {DispatchId("d"): [now]})
    assert notes == ()
    assert differences == (
        "d c0: attempts was 0; it is now 2",
        "d c0: narration differs from character 6: was 'you'; is now 'there'",
        "d c0: component 0 component_data_json differs from character 6: was '1}'; is now '2}'",
    )


def test_what_a_store_or_a_process_did_is_not_compared() -> None:
    """Told as failed because it could not be recorded: a note, no difference. A call that is missing is one."""
    unrecorded = an_outcome(0, outcome=Outcome.FAILED, reason=CallFailure.RECORD_UNAVAILABLE)
    told = {DispatchId("d"): [an_outcome(1), unrecorded]}
    assert compared(told, {DispatchId("d"): [an_outcome(0), an_outcome(1)]}) == (
        (),
        (
            "d c0: not compared: the parent was told RECORD_UNAVAILABLE, because a store or a process failed, or a"
            " budget was used up",
        ),
    )
    assert compared(told, {DispatchId("d"): [an_outcome(0)]})[0] == ("d: the order was c0, c1; it is now c0",)
