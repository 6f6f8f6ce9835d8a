"""Listeners that read slowly, leave, or ask twice (reliability rows 33, 34, 35)."""

import asyncio
import os
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from sidecar.core.status_events.policy import EventRule, Vocabulary
from sidecar.policy.protocols import StatusReported
from sidecar.rpc.handler_guard import ServingRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1 import error_reason_pb2
from tests.rpc.raw_calls import DISPATCH
from tests.support.builders import a_card
from tests.support.fake_runner import answers, hangs, reports, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requests import a_call, failure_of

WITHOUT_LIMITS = Vocabulary({"searching_offers": EventRule()}, per_second=1e6, burst=1_000_000)


async def settled(sidecar: SidecarForTests, bound: pb.BindTurnResponse, dispatch_id: str) -> pb.DispatchResult:
    """Return what became of a dispatch whose listeners have left; who asks must not be taken for one of them."""
    await sidecar.around.in_flight.idle()
    return (await sidecar.resume(bound, dispatch_id)).result


def a_slow_channel(sidecar: SidecarForTests) -> grpc.aio.Channel:
    """Return a connection whose client takes little that it does not read."""
    options = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))
    return grpc.aio.insecure_channel(sidecar.dispatch_target, options=options)


async def test_a_listener_that_does_not_read_is_given_up_and_harms_nobody() -> None:
    """Reports of a megabyte that nobody reads: given up after the write timeout, told so, and resumable."""
    # Long enough for the first message on a busy machine: only a listener that has begun to read is told of its end.
    serving = ServingRules(write_timeout=timedelta(milliseconds=500))
    async with running_sidecar_for_tests(serving=serving, rules={"vocabulary": WITHOUT_LIMITS}) as sidecar:
        reported = StatusReported("searching_offers", {"place": "x" * 500})
        sidecar.runner.use("shop", reports(*[reported] * 1_500))
        bound = await sidecar.bind()
        async with a_slow_channel(sidecar) as slow:
            request = sidecar.dispatch_request(bound, "ask_shop")
            stream = type(sidecar.stub)(slow).Dispatch(request, metadata=sidecar.metadata)
            await stream.read()
            await sidecar.around.in_flight.idle()
            assert (await sidecar.dispatch(await sidecar.bind(), "ask_rewards")).outcomes == ["SUCCEEDED"]
            failure = await failure_of(_rest_of(stream))
        assert (failure.code, failure.reason) == (StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")


@pytest.mark.parametrize("timeout", [0.1, 60.0], ids=["given up", "waited for"])
async def test_a_listener_of_large_answers_gets_them_or_is_told_that_it_was_given_up(timeout: float) -> None:
    """The very first message is too large to leave unread. A call that is given up there still gets its status."""
    serving = ServingRules(write_timeout=timedelta(seconds=timeout))
    async with running_sidecar_for_tests(serving=serving) as sidecar:
        sidecar.runner.use("shop", answers("x" * 250_000))
        bound = await sidecar.bind()
        async with a_slow_channel(sidecar) as slow:
            calls = [a_call(f"c-{place}", "ask_shop") for place in range(3)]
            request = sidecar.dispatch_request(bound, *calls)
            stream = type(sidecar.stub)(slow).Dispatch(request, metadata=sidecar.metadata)
            await sidecar.runner.until_started("shop")
            resumed = await sidecar.resume(bound, request.dispatch_id)
            if timeout < 1:
                await sidecar.around.in_flight.idle()
                failure = await failure_of(_rest_of(stream))
                assert (failure.code, failure.reason) == (StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
            else:
                assert sidecar.around.in_flight.by_method()[f"{DISPATCH}Dispatch"] == 1
                *_, last = [message.frame async for message in stream]
                assert last.result == resumed.result
            assert [len(each.narration) for each in resumed.result.outcomes] == [250_000] * 3
            await sidecar.around.in_flight.idle()


@pytest.mark.parametrize("size", [100, 100_000], ids=["sent with the status", "written before it"])
async def test_a_result_is_the_last_message_whatever_its_size(size: int) -> None:
    """A small one leaves together with the status, a large one is waited for: the client sees no difference."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("x" * size))
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop")
        stream = sidecar.stub.Dispatch(request, metadata=sidecar.metadata)
        frames = [message.frame async for message in stream]
        assert await stream.code() is StatusCode.OK
        assert [frame.HasField("result") for frame in frames] == [False] * (len(frames) - 1) + [True]
        assert all(frame.ByteSize() for frame in frames)
        assert len(frames[-1].result.outcomes[0].narration) == size


async def _rest_of(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize("unary", [False, True], ids=["Dispatch", "DispatchUnary"])
async def test_calls_are_cancelled_when_the_client_leaves(unary: bool) -> None:
    """By default: the sub-agents are told to stop, the outcome is on record, and a drain need not wait."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop")
        leaving = _started(sidecar, request, unary=unary)
        await sidecar.runner.until_started("shop")
        leaving.cancel()
        outcome = (await settled(sidecar, bound, request.dispatch_id)).outcomes[0]
        assert outcome.status.reason == error_reason_pb2.ERROR_REASON_CALL_CANCELLED
        await sidecar.around.in_flight.idle()
        assert sidecar.runner.cancelled == ["shop"]


@pytest.mark.parametrize("unary", [False, True], ids=["Dispatch", "DispatchUnary"])
async def test_calls_go_on_without_the_client_if_it_asked_for_that(unary: bool) -> None:
    """`CONTINUE`: the answer is there when somebody comes back for it."""
    async with running_sidecar_for_tests() as sidecar:
        gate = asyncio.Event()
        sidecar.runner.use("shop", waits_for(gate))
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop", on_disconnect=pb.ON_DISCONNECT_CONTINUE)
        leaving = _started(sidecar, request, unary=unary)
        await sidecar.runner.until_started("shop")
        leaving.cancel()
        await sidecar.around.in_flight.idle()
        gate.set()
        assert (await settled(sidecar, bound, request.dispatch_id)).outcomes[0].narration == "hello from shop"


async def test_calls_go_on_for_as_long_as_the_client_said() -> None:
    """`CONTINUE_UNTIL` 50 ms after it left: then they are cancelled."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(
            bound,
            "ask_shop",
            on_disconnect=pb.ON_DISCONNECT_CONTINUE_UNTIL,
            continue_for=Duration(nanos=50_000_000),
        )
        leaving = _started(sidecar, request, unary=False)
        await sidecar.runner.until_started("shop")
        leaving.cancel()
        await sidecar.around.in_flight.idle()
        await sidecar.runner.until_cancelled("shop")
        outcome = (await settled(sidecar, bound, request.dispatch_id)).outcomes[0]
        assert outcome.status.reason == error_reason_pb2.ERROR_REASON_CALL_CANCELLED


def _started(sidecar: SidecarForTests, request: pb.DispatchRequest, *, unary: bool) -> "asyncio.Future[object]":
    async def read() -> object:
        if unary:
            return await sidecar.stub.DispatchUnary(
                pb.DispatchUnaryRequest(dispatch=request), metadata=sidecar.metadata
            )
        return await sidecar.send(request, 30.0)

    return asyncio.ensure_future(read())


async def test_clients_that_leave_cost_nothing_that_stays() -> None:
    """200 dispatches, each left in the middle: at rest as many tasks and open files as among the first 50."""
    async with running_sidecar_for_tests(max_dispatches=1000) as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        tasks, files = [], []
        for _ in range(200):
            request = sidecar.dispatch_request(bound, "ask_shop")
            stream = sidecar.stub.Dispatch(request, metadata=sidecar.metadata)
            await stream.read()
            stream.cancel()
            await settled(sidecar, bound, request.dispatch_id)
            tasks.append(len(asyncio.all_tasks()))
            files.append(len(os.listdir("/proc/self/fd")))
        # The least of many rounds, since a task may take a moment more to end in any one of them.
        assert min(tasks[150:]) <= min(tasks[:50])
        assert min(files[150:]) <= min(files[:50])
        assert sidecar.operations.grants.alive == 0
        assert sidecar.operations.dispatch_calls.running == 0


async def test_the_same_request_twice_runs_once() -> None:
    """Two at once: both get the same outcomes, one of them as `ATTACHED`; a third, afterwards, gets them again."""
    async with running_sidecar_for_tests() as sidecar:
        gate = asyncio.Event()
        sidecar.runner.use("shop", waits_for(gate))
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop", "ask_rewards")
        first = asyncio.ensure_future(sidecar.send(request))
        await sidecar.runner.until_started("shop")
        second = asyncio.ensure_future(sidecar.send(request))
        gate.set()
        replies = [await first, await second, await sidecar.send(request)]
        states = [reply.frames[0].snapshot.state for reply in replies]
        assert states == [pb.START_STATE_STARTED, pb.START_STATE_ATTACHED, pb.START_STATE_ATTACHED]
        assert [list(reply.result.outcomes) for reply in replies] == [list(replies[0].result.outcomes)] * 3
        assert sidecar.runner.started == ["shop", "rewards"]


async def test_an_id_with_other_contents_is_refused() -> None:
    """`dispatch_id` and `turn_id`; what was begun under them is left alone."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(turn_id="turn-x")
        await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")
        failure = await failure_of(sidecar.dispatch(bound, "ask_rewards", dispatch_id="d-1"))
        assert (failure.code, failure.reason) == (StatusCode.ALREADY_EXISTS, "DISPATCH_ID_REUSED")
        failure = await failure_of(sidecar.bind(turn_id="turn-x", principal="another"))
        assert (failure.code, failure.reason) == (StatusCode.ALREADY_EXISTS, "TURN_ID_REUSED")
        await sidecar.end(bound, narration="the answer")
        failure = await failure_of(sidecar.end(bound, narration="another answer"))
        assert failure.reason == "TURN_ID_REUSED"
        assert sidecar.runner.started == ["shop"]


async def test_a_repeated_bind_and_a_repeated_end_return_the_same() -> None:
    """As after a lost reply; the verdicts may come in another order."""
    async with running_sidecar_for_tests() as sidecar:
        bound = [await sidecar.bind(turn_id="turn-x") for _ in range(2)]
        assert [each.state for each in bound] == [pb.START_STATE_STARTED, pb.START_STATE_ATTACHED]
        assert bound[0].surface_token == bound[1].surface_token
        reply = await sidecar.dispatch(bound[0], "ask_shop", "ask_rewards")
        verdicts = [pb.Integration(child_id=each.child_id) for each in reply.result.outcomes]
        ended = [await sidecar.end(bound[0], integrations=each) for each in (verdicts, verdicts[::-1])]
        assert [each.state for each in ended] == [pb.START_STATE_STARTED, pb.START_STATE_ATTACHED]
        assert ended[0].routing_decision == ended[1].routing_decision


async def test_the_outcomes_of_a_dispatch_always_fit_into_one_message() -> None:
    """Eight sub-agents that each bring more than their share: outcomes arrive, and say what was too large."""
    names = [f"agent{n}" for n in range(8)]
    async with running_sidecar_for_tests(cap=8, cards=[a_card(name) for name in names]) as sidecar:
        for place, name in enumerate(names):
            sidecar.runner.use(name, answers("日" * (130_000 if place else 140_000)))
        reply = await sidecar.dispatch(await sidecar.bind(), *(f"ask_{name}" for name in names))
        assert reply.outcomes == ["FAILED"] + ["SUCCEEDED"] * 7
        assert reply.of("call-1").status.reason == error_reason_pb2.ERROR_REASON_RESULT_TOO_LARGE


async def test_a_long_absence_is_made_up_for_in_frames_of_bounded_size() -> None:
    """More events than fit into a message, listened to afterwards: several frames, in order, with the result last."""
    async with running_sidecar_for_tests(rules={"vocabulary": WITHOUT_LIMITS}) as sidecar:
        attributes = {f"key{n}": "日" * 256 for n in range(16)}
        sidecar.runner.use("shop", reports(*[StatusReported("searching_offers", attributes)] * 500))
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop")
        await sidecar.stub.DispatchUnary(pb.DispatchUnaryRequest(dispatch=request), metadata=sidecar.metadata)
        reply = await sidecar.resume(bound, request.dispatch_id)
        assert len(reply.frames) > 1
        assert [event.sequence for event in reply.events] == list(range(1, 503))
        assert [frame.HasField("result") for frame in reply.frames] == [False] * (len(reply.frames) - 1) + [True]
