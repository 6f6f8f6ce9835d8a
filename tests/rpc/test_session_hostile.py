"""Clients of a lane that ask too much, grant nonsense or do not read: the lane or the operation ends with a reason."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest

from sidecar.core.session.incoming import MOST_ENTRIES, check_deadline, lifetime, longest_deadline
from sidecar.core.session.outgoing import OutgoingLimits
from sidecar.core.session.stalls import Stall
from sidecar.rpc.session.operation import LeaveReason
from sidecar.rpc.session.rules import SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.fake_runner import answers, hangs
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.lane_stub import RawLane, hello, operation
from tests.support.requests import a_bind

SLOW_READER = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))
UNKNOWN = pb.CancelCallRequest(surface_token="unknown", dispatch_id="d", call_id="c")


async def opened(sidecar: SidecarForTests, **fields: Any) -> RawLane:
    """Open a lane."""
    lane = RawLane(sidecar.channel, sidecar.metadata)
    await lane.say_hello(**fields)
    return lane


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (pb.SessionRequest(credits=[pb.SessionCredit(correlation_id=0, bytes=0)]), "credits.bytes"),
        (pb.SessionRequest(credits=[pb.SessionCredit(correlation_id=0, bytes=-(2**63))]), "credits.bytes"),
        (pb.SessionRequest(operations=[operation(-1, bind_turn=a_bind())]), "operations.correlation_id"),
        (pb.SessionRequest(operations=[operation(1, cancel_call=UNKNOWN)] * 2), "operations.correlation_id"),
        (pb.SessionRequest(operations=[operation(1, credit_bytes=-1)]), "operations.credit_bytes"),
        (pb.SessionRequest(operations=[operation(at) for at in range(1, MOST_ENTRIES + 2)]), "operations"),
        (pb.SessionRequest(abandons=[7] * (MOST_ENTRIES + 1)), "operations"),
    ],
)
async def test_a_message_that_breaks_the_contract_ends_the_lane(message: pb.SessionRequest, named: str) -> None:
    """The error names the field. A message of a million entries would keep every other client waiting."""
    async with running_sidecar_for_tests() as sidecar:
        lane = await opened(sidecar)
        await lane.call.write(message)
        failure = await lane.failure()
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "SESSION_INVALID")
    assert list(failure.fields) == [named]


async def test_a_lane_whose_hello_has_a_negative_credit_is_refused() -> None:
    """Such a lane would never carry a result."""
    async with running_sidecar_for_tests() as sidecar:
        lane = RawLane(sidecar.channel, sidecar.metadata)
        await lane.call.write(hello(credit_bytes=-1))
        failure = await lane.failure()
    assert list(failure.fields) == ["hello.credit_bytes"]


async def test_credit_beyond_all_bounds_counts_as_the_most_there_can_be() -> None:
    """It neither overflows nor ends the lane; ids that are not known are ignored."""
    async with running_sidecar_for_tests() as sidecar:
        lane = await opened(sidecar, credit_bytes=2**63 - 1)
        most = [pb.SessionCredit(correlation_id=at, bytes=2**63 - 1) for at in (0, 0, 1, 2**63 - 1, -5)]
        await lane.send(operation(1, bind_turn=a_bind(), credit_bytes=2**63 - 1), credits=most, abandons=[-1, 2**62])
        assert (await lane.ended(1)).code == 0
        await lane.send(operation(2**63 - 1, cancel_call=UNKNOWN))
        assert (await lane.ended(2**63 - 1)).reason == "SURFACE_TOKEN_INVALID"


@pytest.mark.parametrize("seconds", [0.0, -1.0, -3e11])
async def test_an_operation_whose_deadline_has_passed_begins_nothing(seconds: float) -> None:
    """As a plain RPC with no time left; the lane goes on."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        lane = await opened(sidecar)
        late = operation(1, dispatch=sidecar.dispatch_request(bound, "ask_shop"))
        late.deadline.seconds = int(seconds)
        late.deadline.SetInParent()
        await lane.send(late, operation(2, bind_turn=a_bind(turn_id="turn-2")))
        assert (await lane.ended(1)).reason in {"ADMISSION_REFUSED", "DEADLINE_EXCEEDED"}
        assert (await lane.ended(2)).code == 0
    assert sidecar.runner.started == []


async def test_of_too_many_operations_in_one_message_the_first_are_carried_out() -> None:
    """Each further one is refused on its own, without a task, and in the order of the message."""
    async with running_sidecar_for_tests(session=SessionRules(most_operations=2)) as sidecar:
        lane = await opened(sidecar)
        await lane.send(*(operation(at, bind_turn=a_bind(turn_id=f"turn-{at}")) for at in range(1, 6)))
        reasons = [(await lane.ended(at)).reason for at in range(1, 6)]
    assert reasons == ["", "", *["ADMISSION_REFUSED"] * 3]
    assert sidecar.limits == ["lane_operations"] * 3


async def test_a_client_that_asks_on_without_reading_is_read_no_further() -> None:
    """Refusals cost no credit: without this bound they would pile up for as long as the client sends."""
    rules = SessionRules(
        outgoing=OutgoingLimits(operation_queue=1000, lane_queue=20_000), stall_timeout=timedelta(milliseconds=300)
    )
    async with (
        running_sidecar_for_tests(session=rules) as sidecar,
        grpc.aio.insecure_channel(sidecar.dispatch_target, options=SLOW_READER) as slow,
    ):
        lane = RawLane(slow, sidecar.metadata)
        await lane.say_hello()
        sent = 0
        async with asyncio.timeout(20):
            while not sidecar.lane_reports.stalls:
                writing = asyncio.ensure_future(lane.send(*(operation(sent + at) for at in range(1, 101))))
                await asyncio.wait((writing,), timeout=0.05)
                writing.cancel()
                sent += 100
        (stall,) = sidecar.lane_reports.stalls
    refusal = 300
    assert stall.dropped_bytes < rules.outgoing.lane_queue + 100 * refusal


async def test_a_client_that_was_not_read_for_a_while_is_read_again_once_it_reads() -> None:
    """Every one of its operations is answered."""
    async with running_sidecar_for_tests(session=SessionRules(outgoing=OutgoingLimits(1000, 5000))) as sidecar:
        lane = await opened(sidecar)
        for start in range(0, 500, 100):
            await lane.send(*(operation(start + at) for at in range(1, 101)))
        for at in range(1, 501):
            assert (await lane.ended(at)).reason == "SESSION_INVALID"


async def test_a_result_that_is_larger_than_a_message_may_be_ends_its_operation_alone() -> None:
    """GRPC would end the lane over it, and every lane on which its client resumes."""
    async with running_sidecar_for_tests(session=SessionRules(message_bytes=50_000)) as sidecar:
        sidecar.runner.use("shop", answers("x" * 100_000))
        bound = await sidecar.bind()
        lane = await opened(sidecar)
        await lane.send(operation(1, dispatch=sidecar.dispatch_request(bound, "ask_shop")))
        ended = await lane.ended(1)
        await lane.send(operation(2, bind_turn=a_bind(turn_id="turn-2")))
        assert (await lane.ended(2)).code == 0
    assert (ended.code, ended.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "OVERLOADED")


async def test_a_lane_that_says_hello_after_the_drain_has_begun_is_drained() -> None:
    """The sidecar has let it in before; a client that heard nothing would go on sending to it."""
    async with running_sidecar_for_tests() as sidecar:
        lane = RawLane(sidecar.channel, sidecar.metadata)
        async with asyncio.timeout(10):
            while not sidecar.lane_counts.lanes:
                await asyncio.wait((asyncio.ensure_future(sidecar.bind()),))
        sidecar.lanes.drain()
        await lane.say_hello()
        await lane.send(operation(1, cancel_call=UNKNOWN))
        await lane.ended(1)
        reasons = [each.drain.reason for each in lane.messages if each.HasField("drain")]
    assert reasons == [pb.SESSION_DRAIN_REASON_STOPPING]


async def test_an_operation_that_ends_just_after_a_stall_is_no_defect() -> None:
    """Its queue is gone by then, although the call of the lane has not ended yet."""
    rules = SessionRules(stall_timeout=timedelta(milliseconds=100))
    async with (
        running_sidecar_for_tests(session=rules) as sidecar,
        grpc.aio.insecure_channel(sidecar.dispatch_target, options=SLOW_READER) as slow,
    ):
        sidecar.runner.use("shop", answers("x" * 250_000))
        sidecar.runner.use("rewards", hangs())
        bound = await sidecar.bind()
        lane = RawLane(slow, sidecar.metadata)
        await lane.say_hello()
        stalled = asyncio.Event()

        def at_the_stall(_: Stall) -> None:
            for each in list(the_only_lane(sidecar)._operations.values()):
                each.leave(LeaveReason.EXPIRED)
            stalled.set()

        sidecar.lane_reports.on_stall = at_the_stall
        await lane.send(operation(1, dispatch=sidecar.dispatch_request(bound, "ask_rewards")))
        await sidecar.runner.until_started("rewards")
        for at in range(2, 6):
            await lane.send(operation(at, dispatch=sidecar.dispatch_request(bound, "ask_shop", dispatch_id=f"d-{at}")))
        async with asyncio.timeout(10):
            await stalled.wait()
            await sidecar.around.in_flight.idle()
    assert sidecar.defects == []


def the_only_lane(sidecar: SidecarForTests) -> Any:
    """Look into the sidecar."""
    (lane,) = sidecar.lanes._lanes.values()
    return lane


@pytest.mark.parametrize("chance", [0.0, 0.1])
def test_a_lane_can_be_as_long_as_its_jitter_makes_it(chance: float) -> None:
    """At both ends of the jitter its age and its drain end before the longest deadline that a client may set."""
    for max_age in (timedelta(minutes=1), timedelta(hours=10)):
        for drain_time in (timedelta(seconds=1), timedelta(hours=1)):
            most = longest_deadline(max_age, drain_time)
            age = lifetime(max_age, lambda _, __: chance)
            assert timedelta(0) < age <= max_age
            assert age + drain_time < most
            check_deadline(most, most)
