"""Credit of a lane, and clients that do not read: it costs them an operation, or the lane, and nobody else anything."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest

from sidecar.core.session.outgoing import OutgoingLimits, cost
from sidecar.core.status_events.policy import EventRule, Vocabulary
from sidecar.policy.protocols import StatusReported
from sidecar.rpc.session.rules import SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.fake_runner import answers, reports, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.lane_stub import RawLane, operation
from tests.support.requests import a_bind
from tests.support.whole_result import whole_result

LARGE = "x" * 100_000
SMALL_QUEUE = SessionRules(outgoing=OutgoingLimits(operation_queue=1000), resume_grace=timedelta(hours=1))
WITHOUT_LIMITS = Vocabulary({"searching_offers": EventRule()}, per_second=1e6, burst=1_000_000)


async def opened(sidecar: SidecarForTests, **fields: Any) -> RawLane:
    """Open a lane."""
    lane = RawLane(sidecar.channel, sidecar.metadata)
    await lane.say_hello(**fields)
    return lane


def resume(bound: pb.BindTurnResponse, dispatch_id: str) -> pb.ResumeDispatchRequest:
    """Return a request."""
    return pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id=dispatch_id)


async def test_an_operation_without_credit_ends_and_can_be_resumed() -> None:
    """Another one beside it is answered; the reason says whose credit it was, and the answer is there later."""
    async with running_sidecar_for_tests(session=SMALL_QUEUE) as sidecar:
        gate = asyncio.Event()
        sidecar.runner.use("shop", waits_for(gate, answers(LARGE)))
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop", dispatch_id="d-1")
        lane = await opened(sidecar)
        await lane.send(operation(1, dispatch=request, credit_bytes=1))
        await lane.read()
        await lane.send(operation(2, bind_turn=a_bind()))
        gate.set()
        ended = await lane.ended(1)
        assert (ended.code, ended.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "SESSION_CREDIT_EXHAUSTED")
        assert (await lane.ended(2)).code == 0
        await lane.send(operation(3, resume_dispatch=resume(bound, "d-1")))
        outcome = whole_result(await lane.frames(3)).outcomes[0]
    assert outcome.narration == LARGE
    assert sidecar.lane_reports.credits == ["operation"]


async def test_a_dispatch_whose_client_grants_nothing_runs_on_for_the_grace() -> None:
    """Its events are more than may wait while its sub-agent runs: it is not cancelled, and can be resumed."""
    async with running_sidecar_for_tests(session=SMALL_QUEUE, rules={"vocabulary": WITHOUT_LIMITS}) as sidecar:
        gate, may_report = asyncio.Event(), asyncio.Event()
        many = reports(*(StatusReported("searching_offers", {"text": "x" * 200}) for _ in range(20)))
        sidecar.runner.use("shop", waits_for(may_report, many))
        sidecar.runner.use("rewards", waits_for(gate))
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop", "ask_rewards", dispatch_id="d-1")
        lane = await opened(sidecar)
        await lane.send(operation(1, dispatch=request, credit_bytes=1))
        await lane.read()
        may_report.set()
        assert (await lane.ended(1)).reason == "SESSION_CREDIT_EXHAUSTED"
        await lane.send(operation(2, resume_dispatch=resume(bound, "d-1")))
        gate.set()
        assert len((await lane.frames(2))[-1].result.outcomes) == 2
    assert sidecar.runner.cancelled == []


async def test_what_waits_for_credit_leaves_as_soon_as_it_is_granted() -> None:
    """Of the operation, then of the lane."""
    async with running_sidecar_for_tests() as sidecar:
        gate = asyncio.Event()
        sidecar.runner.use("shop", waits_for(gate, answers(LARGE)))
        bound = await sidecar.bind()
        lane = await opened(sidecar, credit_bytes=60_000)
        first = sidecar.dispatch_request(bound, "ask_shop", dispatch_id="d-1")
        await lane.send(operation(1, dispatch=first, credit_bytes=1))
        await lane.read()
        gate.set()
        await sidecar.around.in_flight.idle()
        await lane.send(operation(2, bind_turn=a_bind()))
        assert (await lane.ended(2)).code == 0
        assert [each for each in lane.results if each.correlation_id == 1 and each.HasField("status")] == []
        await lane.send(credits=[pb.SessionCredit(correlation_id=1, bytes=1000)])
        assert (await lane.frames(1))[-1].HasField("result")
        await lane.send(operation(3, bind_turn=a_bind()))
        await sidecar.around.in_flight.idle()
        await lane.send(credits=[pb.SessionCredit(correlation_id=0, bytes=200_000)])
        assert (await lane.ended(3)).code == 0


async def test_a_lane_that_its_client_has_closed_ends_although_credit_is_missing() -> None:
    """Nobody can grant any more: what waits is ended with the reason, and the lane with OK."""
    async with running_sidecar_for_tests() as sidecar:
        lane = await opened(sidecar, credit_bytes=1)
        await lane.send(operation(1, bind_turn=a_bind(turn_id="t-1")), operation(2, bind_turn=a_bind(turn_id="t-2")))
        await lane.call.done_writing()
        assert (await lane.ended(1)).code == 0
        assert (await lane.ended(2)).reason == "SESSION_CREDIT_EXHAUSTED"
        assert await lane.call.code() is grpc.StatusCode.OK


async def test_a_lane_that_is_not_read_is_given_up_and_the_next_one_is_told() -> None:
    """Its queue is freed, the stall is counted, another client is served meanwhile, and what ran is there to resume."""
    rules = SessionRules(stall_timeout=timedelta(milliseconds=100))
    async with running_sidecar_for_tests(session=rules) as sidecar:
        sidecar.runner.use("shop", answers("x" * 250_000))
        bound = await sidecar.bind()
        options = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))
        async with grpc.aio.insecure_channel(sidecar.dispatch_target, options=options) as slow:
            lane = RawLane(slow, sidecar.metadata)
            await lane.say_hello()
            for at in range(1, 5):
                request = sidecar.dispatch_request(bound, "ask_shop", dispatch_id=f"d-{at}")
                await lane.send(operation(at, dispatch=request))
            async with asyncio.timeout(10):
                while not sidecar.lane_reports.stalls:
                    assert (await sidecar.dispatch(await sidecar.bind(), "ask_rewards")).outcomes == ["SUCCEEDED"]
            failed = await lane.failure()
        (stall,) = sidecar.lane_reports.stalls
        for _ in range(2):  # the first of the two may break before the client has received its hello
            after = await opened(sidecar, previous_lane_id=lane.hello.lane_id)
            told = after.hello.previous_stall
            assert (told.lane_id, told.dropped_bytes) == (lane.hello.lane_id, stall.dropped_bytes)
        assert (await opened(sidecar, previous_lane_id=after.hello.lane_id)).hello.HasField("previous_stall") is False
        for at in range(1, 5):
            await after.send(operation(at, resume_dispatch=resume(bound, f"d-{at}")))
            assert len(whole_result(await after.frames(at)).outcomes[0].narration) == 250_000
    assert (failed.reason, failed.metadata) == ("SESSION_OVER", {"cause": "stalled"})
    assert stall.dropped_bytes > 0


@pytest.mark.parametrize("size", [1, 127, 128, 129, 130, 16_383, 16_384, 16_390, 300_000])
async def test_a_result_costs_its_own_size(size: int) -> None:
    """What clients reckon, and grant again, is what the sidecar has taken off: else a long lane would run dry."""
    result = pb.SessionResult(correlation_id=1, cancel_call=pb.CancelCallResponse(cancelled=True))
    result.status.message = "x" * size
    assert cost(pb.SessionResponse(results=[result]).SerializeToString()) == result.ByteSize()
