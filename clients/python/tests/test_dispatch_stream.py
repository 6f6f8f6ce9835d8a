import asyncio
from collections import deque
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.python.tests.support.fake_sidecar_host import CALLS, FakeSidecar, scene, status_event
from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import (
    Axis,
    CallFailure,
    CapBehaviour,
    ClientTimeouts,
    Gap,
    Outcome,
    SidecarClient,
    ToolCall,
    TurnRequest,
)
from subagents_errors import (
    AdmissionRefused,
    BindingDigestMismatch,
    DeadlineExceeded,
    DeadlineTooShort,
    DependencyUnavailable,
    RecordConflict,
    StoreUnavailable,
    UnknownDispatch,
)

QUICK = ClientTimeouts(unreachable_after=timedelta(milliseconds=200))


async def test_events_come_in_order_and_then_one_outcome_per_call() -> None:
    """Three events, two calls, an unbroken connection."""
    async with scene(FakeSidecar(events=[status_event(n) for n in (1, 2, 3)])) as here:
        turn = await here.turn()
        async with turn.dispatch(CALLS) as stream:
            seen = [event.sequence async for event in stream]
            result = await stream.result()

    assert seen == [1, 2, 3]
    assert [one.call_id for one in result.outcomes] == ["call-1", "call-2"]
    assert [one.narration for one in result.outcomes] == ["answer to call-1", "answer to call-2"]
    assert not result.synthesised
    assert stream.snapshot is not None
    assert here.sidecar.secrets == ["secret-1", "secret-1"]


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(min_value=0, max_value=6), max_size=4, unique=True).map(sorted))
def test_a_stream_broken_anywhere_goes_on_without_loss_or_repetition(cuts: list[int]) -> None:
    """Six events; the connection breaks after any of them, also before the first frame. It is dispatched once."""

    async def scenario() -> None:
        async with scene(FakeSidecar(events=[status_event(n) for n in range(1, 7)], cuts=deque(cuts))) as here:
            turn = await here.turn()
            async with asyncio.timeout(20), turn.dispatch(CALLS) as stream:
                seen = [event.sequence async for event in stream]
                result = await stream.result()
        assert seen == [1, 2, 3, 4, 5, 6]
        assert not result.synthesised
        assert [one.outcome for one in result.outcomes] == [Outcome.SUCCEEDED] * 2
        assert here.sidecar.methods().count("Dispatch") == 1
        assert bool(cuts) == ("ResumeDispatch" in here.sidecar.methods())

    asyncio.run(scenario())


async def test_a_declared_gap_is_told_and_not_asked_for_again() -> None:
    """Events 1 to 4 are gone; after the gap and event 5 the connection breaks: it resumes after 5."""
    gap = dispatch_pb2.DispatchEvent(sequence=4, gap=dispatch_pb2.Gap(from_sequence=1, to_sequence=4))
    async with scene(FakeSidecar(events=[gap, status_event(5), status_event(6)], cuts=deque([5]))) as here:
        turn = await here.turn()
        async with turn.dispatch(CALLS) as stream:
            events = [event async for event in stream]

    assert isinstance(events[0], Gap)
    assert (events[0].from_sequence, events[0].to_sequence) == (1, 4)
    assert [event.sequence for event in events] == [4, 5, 6]


async def test_a_dispatch_that_a_restarted_sidecar_forgot_is_synthesised_and_never_begun_again() -> None:
    """The children may have run before the restart; running them twice would be worse than no answer."""
    sidecar = FakeSidecar(events=[status_event(1)], cuts=deque([1]))
    sidecar.refusals["ResumeDispatch"].append(UnknownDispatch("no such dispatch"))
    async with scene(sidecar) as here:
        turn = await here.turn()
        result = await turn.dispatch_and_wait(CALLS)

    assert result.synthesised
    assert isinstance(result.cause, UnknownDispatch)
    assert here.sidecar.methods().count("Dispatch") == 1


async def test_a_sidecar_that_dies_in_the_middle_leaves_a_failed_outcome_for_every_call() -> None:
    """The process goes away after the first event and does not come back."""
    async with scene(FakeSidecar(events=[status_event(1)], hangs=True), QUICK) as here:
        turn = await here.turn()
        async with turn.dispatch(CALLS) as stream:
            first = await anext(stream)
            await here.die()
            result = await stream.result()

    assert first.sequence == 1
    assert result.synthesised
    assert isinstance(result.cause, DependencyUnavailable)
    assert [one.call_id for one in result.outcomes] == ["call-1", "call-2"]
    assert {one.outcome for one in result.outcomes} == {Outcome.FAILED}
    assert {(one.status.reason, one.status.axis) for one in result.outcomes if one.status} == {
        (CallFailure.SIDECAR_UNREACHABLE, Axis.EXECUTION)
    }
    assert all(text for _, text in result.tool_messages())


async def test_a_sidecar_that_is_gone_from_the_start_is_synthesised_within_the_cap() -> None:
    """Cap 2, three calls, no connection: two failed, the third dropped, in emission order."""
    calls = [*CALLS, ToolCall("call-3", "ask_support")]
    async with scene(FakeSidecar(cap=2), QUICK) as here:
        turn = await here.turn()
        await here.die()
        result = await turn.dispatch_and_wait(calls)

    assert [one.outcome for one in result.outcomes] == [Outcome.FAILED, Outcome.FAILED, Outcome.DROPPED]
    assert [one.sub_agent_id for one in result.outcomes] == ["shop", "rewards", "support"]
    assert [one.emission_index for one in result.outcomes] == [0, 1, 2]
    assert result.cap is CapBehaviour.OVER
    assert result.outcomes[2].status is not None
    assert result.outcomes[2].status.reason == CallFailure.OVER_CAP
    assert "Dispatch" not in here.sidecar.methods()


async def test_a_silent_sidecar_is_settled_before_the_callers_deadline() -> None:
    """The stream hangs; the SDK settles at its own deadline, which lies before the caller's."""
    async with scene(FakeSidecar(hangs=True)) as here:
        turn = await here.turn()
        async with asyncio.timeout(10):
            result = await turn.dispatch_and_wait(CALLS, timeout=timedelta(milliseconds=300))

    assert result.synthesised
    assert isinstance(result.cause, DeadlineExceeded)


@pytest.mark.parametrize(
    "refusal",
    [
        StoreUnavailable("not started"),
        AdmissionRefused("full", retry_after=timedelta(0)),
        RecordConflict("used elsewhere"),
    ],
)
async def test_a_refusal_that_started_nothing_is_tried_again_with_the_same_id(
    refusal: StoreUnavailable | AdmissionRefused | RecordConflict,
) -> None:
    """The sidecar says itself that it did not begin: the same dispatch is sent again."""
    sidecar = FakeSidecar()
    sidecar.refusals["Dispatch"].append(refusal)
    async with scene(sidecar) as here:
        turn = await here.turn()
        result = await turn.dispatch_and_wait(CALLS, dispatch_id="dispatch-1")

    sent = [one for _, one in here.sidecar.received if isinstance(one, dispatch_pb2.DispatchRequest)]
    assert [one.dispatch_id for one in sent] == ["dispatch-1", "dispatch-1"]
    assert not result.synthesised


async def test_a_sidecar_that_keeps_refusing_for_now_is_synthesised_after_a_few_attempts() -> None:
    """Every attempt is refused for want of a store: bounded attempts, growing pauses, a complete history."""
    sidecar = FakeSidecar()
    sidecar.refusals["Dispatch"].extend(StoreUnavailable("not started") for _ in range(20))
    async with scene(sidecar, ClientTimeouts(most_attempts=3)) as here:
        turn = await here.turn()
        result = await turn.dispatch_and_wait(CALLS)

    assert here.sidecar.methods().count("Dispatch") == 3
    assert isinstance(result.cause, StoreUnavailable)
    assert len(here.pauses.asked) == 2


async def test_what_the_caller_can_mend_is_raised_and_not_synthesised() -> None:
    """A wrong digest means that the caller must bind again: an exception, the same one each time it is asked."""
    sidecar = FakeSidecar()
    sidecar.refusals["Dispatch"].append(BindingDigestMismatch("bind again"))
    async with scene(sidecar) as here:
        turn = await here.turn()
        async with turn.dispatch(CALLS) as stream:
            with pytest.raises(BindingDigestMismatch):
                await stream.result()
            with pytest.raises(BindingDigestMismatch):
                await anext(stream)
        completed = turn.unanswered(CALLS)

    assert [one.outcome for one in completed.outcomes] == [Outcome.FAILED, Outcome.FAILED]


async def test_a_deadline_too_short_for_the_sidecar_still_completes_the_history() -> None:
    """The sidecar refuses for want of time: outcomes, no exception."""
    sidecar = FakeSidecar()
    sidecar.refusals["Dispatch"].append(DeadlineTooShort("too late"))
    async with scene(sidecar) as here:
        turn = await here.turn()
        result = await turn.dispatch_and_wait(CALLS)

    assert isinstance(result.cause, DeadlineTooShort)
    assert len(result.outcomes) == 2


async def test_another_process_can_resume_a_dispatch_by_its_id() -> None:
    """A second client binds the same turn and resumes after event 2."""
    async with scene(FakeSidecar(events=[status_event(n) for n in (1, 2, 3, 4)])) as here:
        turn = await here.turn()
        await turn.dispatch_and_wait(CALLS, dispatch_id="dispatch-1")
        async with SidecarClient.connect(here.target, boot_secret="secret-1") as other:
            again = await other.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1", turn_id=turn.turn_id))
            async with again.resume("dispatch-1", calls=CALLS, after_sequence=2) as stream:
                seen = [event.sequence async for event in stream]
                result = await stream.result()

    assert seen == [3, 4]
    assert [one.call_id for one in result.outcomes] == ["call-1", "call-2"]


async def test_resuming_a_dispatch_that_nobody_knows_is_an_error() -> None:
    """The caller named it, so the caller is told."""
    sidecar = FakeSidecar()
    sidecar.refusals["ResumeDispatch"].append(UnknownDispatch("no such dispatch"))
    async with scene(sidecar) as here:
        turn = await here.turn()
        async with turn.resume("dispatch-9", calls=CALLS) as stream:
            with pytest.raises(UnknownDispatch):
                await stream.result()


async def test_leaving_the_block_lets_the_stream_go() -> None:
    """The sidecar sees the client leave: what becomes of the calls is then its affair."""
    async with scene(FakeSidecar(events=[status_event(1)], hangs=True)) as here:
        turn = await here.turn()
        async with turn.dispatch(CALLS) as stream:
            await anext(stream)
            await here.sidecar.reached.wait()
            frames = stream._frames
        assert frames is not None
        assert frames.cancelled()
