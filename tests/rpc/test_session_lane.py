"""The session lane: operations with their own status, deadline, trace and credit, over one stream."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from sidecar.core.session.outgoing import OutgoingLimits
from sidecar.rpc.session.rules import SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1 import error_reason_pb2
from tests.support.fake_runner import answers, hangs, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.lane_stub import RawLane, hello, operation
from tests.support.requests import Failure, a_bind, failure_of
from tests.support.whole_result import whole_result

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def raw_lane(sidecar: SidecarForTests, seconds: float | None = 60.0) -> RawLane:
    """Call `Session`."""
    return RawLane(sidecar.channel, sidecar.metadata, seconds)


async def end_of(lane: RawLane) -> Failure:
    """Return how a lane failed."""
    return await lane.failure()


async def test_bind_dispatch_and_end_travel_over_one_stream() -> None:
    """A whole turn; the lane's end is OK once the client has closed its side, and all has ended."""
    async with running_sidecar_for_tests() as sidecar:
        lane = raw_lane(sidecar)
        said = await lane.say_hello()
        await lane.send(operation(1, bind_turn=a_bind()))
        assert (await lane.ended(1)).code == 0
        bound = lane.results[0].bind_turn
        await lane.send(operation(2, dispatch=sidecar.dispatch_request(bound, "ask_shop", "ask_rewards")))
        frames = await lane.frames(2)
        await lane.send(operation(3, end_turn=pb.EndTurnRequest(surface_token=bound.surface_token)))
        await lane.call.done_writing()
        assert (await lane.ended(3)).code == 0
        assert await lane.call.read() is grpc.aio.EOF
        assert await lane.call.code() is StatusCode.OK
    assert [each.narration for each in whole_result(frames).outcomes] == ["hello from shop", "hello from rewards"]
    assert (
        bound.contract
        == said.contract
        == pb.Contract(version=1, features=["session", "questions"], session_deadline=said.contract.session_deadline)
    )
    assert sidecar.lane_counts.operations.total() == 3


@pytest.mark.parametrize("seconds", [None, 3600.0])
async def test_a_lane_without_a_deadline_or_with_too_long_a_one_is_refused(seconds: float | None) -> None:
    """A client that does not read cannot be told anything; its deadline ends the stream."""
    async with running_sidecar_for_tests() as sidecar:
        lane = raw_lane(sidecar, seconds)
        refused = await end_of(lane)
        bound = await sidecar.bind()
    assert (refused.code, refused.reason) == (StatusCode.INVALID_ARGUMENT, "SESSION_INVALID")
    assert list(refused.fields) == ["deadline"]
    assert bound.contract.session_deadline.ToTimedelta() == timedelta(minutes=33)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([pb.SessionRequest()], "hello"),
        ([pb.SessionRequest(operations=[operation(1, bind_turn=a_bind())])], "hello"),
        ([hello(), hello()], "hello"),
        ([hello(contract_version=0)], "hello.contract_version"),
        ([hello(), pb.SessionRequest(operations=[operation(0, bind_turn=a_bind())])], "operations.correlation_id"),
        (
            [hello(), pb.SessionRequest(operations=[operation(2, bind_turn=a_bind()), operation(2)])],
            "operations.correlation_id",
        ),
    ],
)
async def test_a_client_that_does_not_keep_to_the_contract_loses_the_lane(
    messages: list[pb.SessionRequest], field: str
) -> None:
    """What is said of it names the field."""
    async with running_sidecar_for_tests() as sidecar:
        lane = raw_lane(sidecar)
        for message in messages:
            await lane.call.write(message)
        refused = await end_of(lane)
    assert (refused.code, refused.reason) == (StatusCode.INVALID_ARGUMENT, "SESSION_INVALID")
    assert list(refused.fields) == [field]


async def test_an_operation_fails_with_the_status_of_its_rpc_and_harms_no_other() -> None:
    """Same code, message and details as the plain RPC; one without a request fails alone, too."""
    async with running_sidecar_for_tests() as sidecar:
        plain = await failure_of(sidecar.stub.BindTurn(a_bind(turn_id="not an id"), metadata=sidecar.metadata))
        lane = raw_lane(sidecar)
        await lane.say_hello()
        bad, good = operation(1, bind_turn=a_bind(turn_id="not an id")), operation(3, bind_turn=a_bind())
        await lane.send(bad, operation(2), good)
        status, empty = await lane.ended(1), await lane.ended(2)
        assert (await lane.ended(3)).code == 0
    assert (status.code, status.message, status.reason) == (3, plain.message, plain.reason)
    assert Status.FromString(status.details).details[0].type_url.endswith("google.rpc.ErrorInfo")
    assert (empty.code, empty.reason) == (3, "SESSION_INVALID")


async def test_a_cancel_beside_its_dispatch_finds_it() -> None:
    """In one message; the dispatch ends with its outcome, and what is sent after them in the same turn, too."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop", dispatch_id="d-1")
        cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d-1", call_id="call-1")
        end = pb.EndTurnRequest(surface_token=bound.surface_token)
        lane = raw_lane(sidecar)
        await lane.say_hello()
        await lane.send(operation(1, dispatch=request), operation(2, cancel_call=cancel), operation(3, end_turn=end))
        frames = await lane.frames(1)
        assert (await lane.ended(2)).code == 0
        assert (await lane.ended(3)).code == 0
    assert frames[-1].result.outcomes[0].status.reason == pb_reason("CALL_CANCELLED")
    ended = next(each.end_turn for each in lane.results if each.HasField("end_turn"))
    assert [child.sub_agent_id for child in ended.children] == ["shop"]


def pb_reason(name: str) -> Any:
    """Return a reason by name."""
    return error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{name}")


async def test_an_operation_has_its_own_deadline() -> None:
    """The dispatch settles before it; one that is too short is refused; the lane goes on."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        lane = raw_lane(sidecar)
        await lane.say_hello()
        await lane.send(
            operation(1, 0.001, bind_turn=a_bind(turn_id="turn-9")),
            operation(2, 0.8, dispatch=sidecar.dispatch_request(bound, "ask_shop")),
            operation(3, bind_turn=a_bind(turn_id="turn-10")),
        )
        assert (await lane.ended(1)).reason in ("ADMISSION_REFUSED", "DEADLINE_EXCEEDED")
        assert (await lane.ended(3)).code == 0
        outcome = (await lane.frames(2))[-1].result.outcomes[0]
    assert outcome.status.reason == pb_reason("JOIN_DEADLINE")


async def test_an_operation_takes_part_in_the_trace_that_it_names() -> None:
    """Its own, whatever the call of the lane has."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        lane = RawLane(sidecar.channel, (*sidecar.metadata, ("tracestate", "of=the-lane")))
        await lane.say_hello()
        request = sidecar.dispatch_request(bound, "ask_shop")
        await lane.send(operation(1, dispatch=request, traceparent=TRACEPARENT, tracestate="a=b"))
        await lane.ended(1)
    assert sidecar.runner.request_of("shop").trace_headers == {"traceparent": TRACEPARENT, "tracestate": "a=b"}


async def test_more_operations_than_allowed_are_refused_one_by_one() -> None:
    """The limit is told to the log, as that of any other admission."""
    async with running_sidecar_for_tests(session=SessionRules(most_operations=1)) as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        lane = raw_lane(sidecar)
        assert (await lane.say_hello()).max_operations == 1
        await lane.send(operation(1, dispatch=sidecar.dispatch_request(bound, "ask_shop")))
        await sidecar.runner.until_started("shop")
        await lane.send(operation(2, bind_turn=a_bind(turn_id="turn-2")))
        refused = await lane.ended(2)
        await lane.send(abandons=[1])
        abandoned = await lane.ended(1)
        await lane.send(operation(3, bind_turn=a_bind(turn_id="turn-3")))
        assert (await lane.ended(3)).code == 0
    assert (refused.reason, sidecar.limits) == ("ADMISSION_REFUSED", ["lane_operations"])
    assert (abandoned.code, abandoned.reason) == (StatusCode.CANCELLED.value[0], "")


async def test_results_that_are_ready_together_leave_in_one_message() -> None:
    """Sixteen binds in one message are answered in few; one that is larger than a message goes alone."""
    limits = OutgoingLimits(message_bytes=64 * 1024)
    async with running_sidecar_for_tests(session=SessionRules(outgoing=limits)) as sidecar:
        sidecar.runner.use("shop", answers("x" * 100_000))
        bound = await sidecar.bind()
        lane = raw_lane(sidecar)
        await lane.say_hello()
        await lane.send(*(operation(at, bind_turn=a_bind(turn_id=f"turn-{at + 10}")) for at in range(1, 17)))
        for at in range(1, 17):
            await lane.ended(at)
        assert len(lane.messages) < 8
        await lane.send(
            operation(17, dispatch=sidecar.dispatch_request(bound, "ask_shop")),
            *(operation(at, bind_turn=a_bind(turn_id=f"turn-{at + 10}")) for at in range(18, 22)),
        )
        for at in range(17, 22):
            await lane.ended(at)
    large = [each for each in lane.messages if each.ByteSize() > limits.message_bytes]
    assert [len(each.results) for each in large] == [1]


async def test_a_drain_waits_for_operations_and_not_for_lanes() -> None:
    """An idle lane is no call in flight; an operation on it is one, by the name of its RPC."""
    async with running_sidecar_for_tests() as sidecar:
        gate = asyncio.Event()
        sidecar.runner.use("shop", waits_for(gate))
        bound = await sidecar.bind()
        lane = raw_lane(sidecar)
        await lane.say_hello()
        assert sidecar.around.in_flight.by_method() == {}
        await lane.send(operation(1, dispatch=sidecar.dispatch_request(bound, "ask_shop")))
        await sidecar.runner.until_started("shop")
        assert sidecar.around.in_flight.by_method() == {"/subagents.dispatch.v1.DispatchService/Dispatch": 1}
        sidecar.lanes.drain()
        assert (await lane.read()).drain.reason == pb.SESSION_DRAIN_REASON_STOPPING
        another = raw_lane(sidecar)
        assert (await end_of(another)).reason == "DRAINING"
        gate.set()
        assert (await lane.ended(1)).code == 0
        await lane.call.done_writing()
        assert await lane.call.code() is StatusCode.OK


async def test_too_many_lanes_are_refused() -> None:
    """Plain RPCs are served all the same."""
    async with running_sidecar_for_tests(session=SessionRules(most_lanes=1)) as sidecar:
        first = raw_lane(sidecar)
        await first.say_hello()
        refused = await end_of(raw_lane(sidecar))
        assert (refused.reason, refused.metadata) == ("ADMISSION_REFUSED", {"limit": "lanes"})
        await sidecar.bind()
        assert sidecar.lane_counts.lanes == 1
