"""The life of a lane: it breaks, is abandoned, grows old, falls silent; dispatches go on as long as they may."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from grpc import StatusCode

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.journal.entries import Draft
from sidecar.core.session.incoming import lifetime
from sidecar.rpc.session.rules import SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1 import error_reason_pb2
from tests.support.fake_runner import hangs, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.lane_stub import RawLane, operation
from tests.support.requests import failure_of
from tests.support.whole_result import whole_result

LONG_GRACE = SessionRules(resume_grace=timedelta(hours=1))
NO_GRACE = SessionRules(resume_grace=timedelta(0))
SHORT_GRACE = SessionRules(resume_grace=timedelta(milliseconds=20))
A_SECOND = SessionRules(resume_grace=timedelta(seconds=1))


class OpensWhenToldTo(MemoryStore):
    """Keeps the opening of a dispatch waiting.

    Attributes:
        opening: set once it is handed over; `may_open` lets it be kept.
    """

    waits = True

    def __init__(self) -> None:
        super().__init__()
        self.opening, self.may_open = asyncio.Event(), asyncio.Event()

    async def append(self, entries: Sequence[Draft]) -> None:
        """Append; the first group after a wait."""
        self.opening.set()
        await self.may_open.wait()
        await super().append(entries)


async def opened(sidecar: SidecarForTests, **fields: Any) -> RawLane:
    """Open a lane."""
    lane = RawLane(sidecar.channel, sidecar.metadata)
    await lane.say_hello(**fields)
    return lane


async def running(sidecar: SidecarForTests, lane: RawLane, script: Any, **fields: Any) -> pb.BindTurnResponse:
    """Begin dispatch `d-1` on a lane as operation 1, and wait until its sub-agent runs and its client has heard so."""
    sidecar.runner.use("shop", script)
    bound = await sidecar.bind()
    request = sidecar.dispatch_request(bound, "ask_shop", dispatch_id="d-1", **fields)
    await lane.send(operation(1, dispatch=request))
    await sidecar.runner.until_started("shop")
    await lane.read()
    return bound


async def broken(sidecar: SidecarForTests, lane: RawLane) -> None:
    """Break a lane, and wait until the sidecar has taken note."""
    lane.call.cancel()
    await sidecar.around.in_flight.idle()


async def reason_of(sidecar: SidecarForTests, bound: pb.BindTurnResponse) -> int:
    """Return why the call of `d-1` did not succeed."""
    reply = await sidecar.resume(bound, "d-1")
    return int(reply.result.outcomes[0].status.reason)


async def test_a_dispatch_outlives_its_lane_and_is_resumed_on_another() -> None:
    """`ON_DISCONNECT_CANCEL`, the default: within the grace nothing is cancelled."""
    async with running_sidecar_for_tests(session=LONG_GRACE) as sidecar:
        gate = asyncio.Event()
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, waits_for(gate))
        await broken(sidecar, lane)
        after = await opened(sidecar, previous_lane_id=lane.hello.lane_id)
        assert after.hello.instance_id == lane.hello.instance_id
        again = pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id="d-1")
        await after.send(operation(1, resume_dispatch=again))
        gate.set()
        outcome = whole_result(await after.frames(1)).outcomes[0]
    assert outcome.narration == "hello from shop"
    assert sidecar.runner.cancelled == []


async def test_a_dispatch_is_cancelled_once_the_grace_is_over() -> None:
    """Nobody has come back."""
    async with running_sidecar_for_tests(session=SHORT_GRACE) as sidecar:
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, hangs())
        await broken(sidecar, lane)
        await sidecar.runner.until_cancelled("shop")
        assert await reason_of(sidecar, bound) == pb_reason("CALL_CANCELLED")


async def test_a_dispatch_that_was_resumed_in_time_is_not_cancelled_by_the_old_lanes_grace() -> None:
    """Of two dispatches on a lane that breaks, one is resumed: when the grace is over, the other alone is cancelled."""
    async with running_sidecar_for_tests(session=A_SECOND) as sidecar:
        gate = asyncio.Event()
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, waits_for(gate))
        sidecar.runner.use("rewards", hangs())
        await lane.send(operation(2, dispatch=sidecar.dispatch_request(await sidecar.bind(), "ask_rewards")))
        await sidecar.runner.until_started("rewards")
        await lane.read()
        after = await opened(sidecar)
        await broken(sidecar, lane)
        again = pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id="d-1")
        await after.send(operation(1, resume_dispatch=again))
        await after.read()
        await sidecar.runner.until_cancelled("rewards")
        gate.set()
        assert whole_result(await after.frames(1)).outcomes[0].narration == "hello from shop"
    assert sidecar.runner.cancelled == ["rewards"]


async def test_an_abandoned_dispatch_is_cancelled_at_once() -> None:
    """The equal of cancelling the RPC: the grace, an hour here, is for lanes that break."""
    async with running_sidecar_for_tests(session=LONG_GRACE) as sidecar:
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, hangs())
        await lane.send(abandons=[1, 77])
        assert (await lane.ended(1)).code == StatusCode.CANCELLED.value[0]
        await sidecar.runner.until_cancelled("shop")
        assert await reason_of(sidecar, bound) == pb_reason("CALL_CANCELLED")


async def test_a_dispatch_that_was_resumed_can_be_abandoned() -> None:
    """What the broken lane left behind does not keep it alive."""
    async with running_sidecar_for_tests(session=LONG_GRACE) as sidecar:
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, hangs())
        await broken(sidecar, lane)
        after = await opened(sidecar)
        again = pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id="d-1")
        await after.send(operation(1, resume_dispatch=again))
        await after.read()
        await after.send(abandons=[1])
        await sidecar.runner.until_cancelled("shop")


async def test_a_dispatch_that_is_to_continue_does() -> None:
    """`CONTINUE`: neither a broken lane nor an abandoned operation stops it."""
    async with running_sidecar_for_tests(session=NO_GRACE) as sidecar:
        gate = asyncio.Event()
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, waits_for(gate), on_disconnect=pb.ON_DISCONNECT_CONTINUE)
        await broken(sidecar, lane)
        gate.set()
        assert (await sidecar.resume(bound, "d-1")).outcomes == ["SUCCEEDED"]


async def test_a_dispatch_whose_lane_breaks_while_it_opens_is_held_for_the_grace() -> None:
    """The lane is gone before the dispatch is on record: it opens, runs and can be resumed."""
    store = OpensWhenToldTo()
    async with running_sidecar_for_tests(session=LONG_GRACE, store=store) as sidecar:
        bound = await sidecar.bind()
        lane = await opened(sidecar)
        request = sidecar.dispatch_request(bound, "ask_shop", dispatch_id="d-1")
        await lane.send(operation(1, dispatch=request))
        await store.opening.wait()
        lane.call.cancel()
        async with asyncio.timeout(10):
            while sidecar.lane_counts.lanes:
                await sidecar.bind()
        store.may_open.set()
        assert (await sidecar.resume(bound, "d-1")).outcomes == ["SUCCEEDED"]


async def test_a_message_that_is_too_large_ends_the_lane_and_no_dispatch() -> None:
    """GRPC does not read it; what else runs on the lane can be resumed on the next one."""
    async with running_sidecar_for_tests(session=LONG_GRACE) as sidecar:
        gate = asyncio.Event()
        lane = await opened(sidecar)
        bound = await running(sidecar, lane, waits_for(gate))
        large = pb.EndTurnRequest(surface_token=bound.surface_token, narration="x" * 5 * 1024 * 1024)
        await lane.send(operation(2, end_turn=large))
        assert (await lane.failure()).code is StatusCode.RESOURCE_EXHAUSTED
        gate.set()
        assert (await sidecar.resume(bound, "d-1")).outcomes == ["SUCCEEDED"]


async def test_bytes_that_are_no_message_end_the_lane() -> None:
    """With the reason that a plain RPC has."""
    async with running_sidecar_for_tests() as sidecar:
        path = "/subagents.dispatch.v1.DispatchService/Session"
        call: Any = sidecar.channel.stream_stream(path)(timeout=60, metadata=sidecar.metadata)
        await call.write(b"\xff")
        failure = await failure_of(call.read())
    assert (failure.code, failure.reason) == (StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")


async def test_a_lane_is_drained_when_it_has_reached_its_age() -> None:
    """First a hint to open another one; what is still in flight at the end of the drain is cut off with a reason."""
    rules = SessionRules(max_age=timedelta(milliseconds=60), drain_time=timedelta(milliseconds=50))
    async with running_sidecar_for_tests(session=rules) as sidecar:
        lane = RawLane(sidecar.channel, sidecar.metadata, seconds=60.0)
        hello = await lane.say_hello()
        assert timedelta(milliseconds=54) <= hello.max_age.ToTimedelta() <= timedelta(milliseconds=60)
        drain = (await lane.read()).drain
        assert (drain.reason, drain.within.ToTimedelta()) == (pb.SESSION_DRAIN_REASON_AGE, rules.drain_time)
        over = await lane.failure()
    assert (over.code, over.reason, over.metadata) == (StatusCode.UNAVAILABLE, "SESSION_OVER", {"cause": "age"})


def test_lanes_of_the_same_age_do_not_end_at_the_same_time() -> None:
    """Up to a tenth earlier."""
    assert lifetime(timedelta(minutes=30), lambda low, high: low) == timedelta(minutes=30)
    assert lifetime(timedelta(minutes=30), lambda low, high: high) == timedelta(minutes=27)


@pytest.mark.parametrize("promised", [True, False])
async def test_a_client_that_has_promised_heartbeats_is_gone_when_they_stop(promised: bool) -> None:
    """One that has not, as a person with a command line, may be silent; the sidecar is not."""
    # Long enough for a busy machine to open the lane within three intervals.
    rules = SessionRules(heartbeat_interval=timedelta(milliseconds=200))
    async with running_sidecar_for_tests(session=rules) as sidecar:
        lane = await opened(sidecar, heartbeats=promised)
        if promised:
            over = await lane.failure()
            assert (over.reason, over.metadata) == ("SESSION_OVER", {"cause": "silent"})
        else:
            async with asyncio.timeout(10):
                beats = [await lane.call.read() for _ in range(4)]
            assert all(each.HasField("heartbeat") for each in beats)


async def test_a_client_that_says_nothing_at_all_is_not_waited_for() -> None:
    """No hello: the lane is refused after three intervals."""
    rules = SessionRules(heartbeat_interval=timedelta(milliseconds=10))
    async with running_sidecar_for_tests(session=rules) as sidecar:
        lane = RawLane(sidecar.channel, sidecar.metadata)
        assert (await lane.failure()).reason == "SESSION_INVALID"


def pb_reason(name: str) -> int:
    """Return a reason by name."""
    return int(error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{name}"))
