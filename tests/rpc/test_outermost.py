"""The wrapper around every handler: whatever a handler does, the caller gets one status and no text of an exception."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc import StatusCode

from sidecar.core.errors import StoreUnavailable, SubagentsError, UnknownChild, all_errors
from sidecar.rpc.authorisation import CallAdmission, CallerKind
from sidecar.rpc.errors import STATUS_OF
from sidecar.rpc.handler_guard import HandlerContext, ServingRules
from sidecar.rpc.health import MOST_WATCHES, Health
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.outermost import ErrorInterceptor
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.errors import error_from
from tests.rpc.raw_calls import DISPATCH, raw, raw_failure
from tests.support.requests import Failure

METHOD = DISPATCH + "BindTurn"
WATCH = "/grpc.health.v1.Health/Watch"
SECRET_TEXT = "password=hunter2 at /srv/sidecar/core.py"


@dataclass(slots=True)
class Served:
    """A server whose only method does what a test says."""

    channel: grpc.aio.Channel
    around: HandlerContext
    defects: list[tuple[str, str, BaseException]] = field(default_factory=list)
    ended: "asyncio.Queue[tuple[float, str, str, str, str]]" = field(default_factory=asyncio.Queue)

    async def failure(self, seconds: float | None = 10.0) -> Failure:
        """Call it."""
        return await raw_failure(self.channel, METHOD, b"", (), seconds)


@asynccontextmanager
async def serving(
    handle: Any, folder: Path, *more: Method, shape: MethodShape = MethodShape.ONE_TO_ONE, most_calls: int = 1000
) -> AsyncIterator[Served]:
    """Serve `handle` as `BindTurn`."""
    defects: list[tuple[str, str, BaseException]] = []
    ended: asyncio.Queue[tuple[float, str, str, str, str]] = asyncio.Queue()
    around = HandlerContext(
        on_defect=lambda *defect: defects.append(defect),
        correlation_id=lambda: "correlation-7",
        rules=ServingRules(min_remaining_time=timedelta(milliseconds=100)),
        on_ended=lambda *told: ended.put_nowait(told),
    )
    method = Method(METHOD, shape, pb.BindTurnRequest.FromString, handle)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (ErrorInterceptor(CallAdmission(CallerKind.CONSUMER_AGENT), [method, *more], around, most_calls),)
    )
    server.add_insecure_port(f"unix:{folder / 's.sock'}")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{folder / 's.sock'}") as channel:
            yield Served(channel, around, defects, ended)
    finally:
        await server.stop(0)


def raising(error: BaseException) -> Any:
    """Return a handler that raises."""

    async def handle(request: Message, call: Call) -> Message:
        raise error

    return handle


@pytest.mark.parametrize("shape", [MethodShape.ONE_TO_ONE, MethodShape.ONE_TO_MANY])
@pytest.mark.parametrize(
    "error", [kind(SECRET_TEXT) for kind in (RuntimeError, KeyError, SystemExit, KeyboardInterrupt, RecursionError)]
)
async def test_a_defect_is_told_to_the_log_only(error: BaseException, shape: MethodShape, tmp_path: Path) -> None:
    """The caller gets a neutral sentence and an id under which the log says more; the server lives on."""
    async with serving(raising(error), tmp_path, shape=shape) as served:
        failure = await served.failure()
        assert (failure.code, failure.reason) == (StatusCode.INTERNAL, "INTERNAL")
        assert failure.metadata == {"correlation_id": "correlation-7"}
        assert "hunter2" not in failure.message
        assert served.defects == [(METHOD, "correlation-7", error)]
        assert (await served.failure()).reason == "INTERNAL"


async def test_a_cancellation_that_the_client_did_not_ask_for_becomes_a_status(tmp_path: Path) -> None:
    """Else the client would hang to its deadline, here for ever (grpc#29248)."""
    async with serving(raising(asyncio.CancelledError()), tmp_path) as served:
        failure = await served.failure(seconds=None)
        assert (failure.code, failure.reason) == (StatusCode.INTERNAL, "INTERNAL")
        # The client can read the status a moment before the handler's task has ended.
        await asyncio.wait_for(served.around.in_flight.idle(), 10)


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (None, "OK", ""),
        (StoreUnavailable("not now"), "UNAVAILABLE", "STORE_UNAVAILABLE"),
        (RuntimeError(SECRET_TEXT), "INTERNAL", "INTERNAL"),
    ],
)
async def test_each_rpc_is_measured_with_its_code_and_reason(
    error: BaseException | None, code: str, reason: str, tmp_path: Path
) -> None:
    """Also one that its listener refuses; the method is named as OpenTelemetry's conventions name it."""

    async def handle(request: Message, call: Call) -> Message:
        if error is not None:
            raise error
        return pb.BindTurnResponse()

    async with serving(handle, tmp_path) as served:
        if error is None:
            await _read(served)
        else:
            await served.failure()
        first = await served.ended.get()
        await raw_failure(served.channel, "/subagents.tools.v1.ToolGatewayService/CallTool", b"", (), 10.0)
        second = await served.ended.get()

    assert first[1:] == (METHOD[1:], code, reason, "rpc")
    assert first[0] > 0
    assert second[1:] == (
        "subagents.tools.v1.ToolGatewayService/CallTool",
        "PERMISSION_DENIED",
        "WRONG_LISTENER",
        "rpc",
    )


@pytest.mark.parametrize(("seconds", "code"), [(None, "CANCELLED"), (1.0, "DEADLINE_EXCEEDED")])
async def test_an_rpc_whose_client_has_left_is_measured_as_that(
    seconds: float | None, code: str, tmp_path: Path
) -> None:
    """The client cancels, or its deadline passes: gRPC cancels the handler either way."""
    entered = asyncio.Event()

    async def hang(request: Message, call: Call) -> Message:
        entered.set()
        await asyncio.Event().wait()
        return pb.BindTurnResponse()

    async with serving(hang, tmp_path) as served:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = served.channel.unary_unary(METHOD)
        call = ask(b"", timeout=seconds)
        await entered.wait()
        if seconds is None:
            call.cancel()
        told = await served.ended.get()
    assert told[1:] == (METHOD[1:], code, "", "rpc")


async def test_every_error_of_the_tree_arrives_with_its_status_and_reason(tmp_path: Path) -> None:
    """One call for each class; the SDK raises the same class again."""

    class NextError:
        def __init__(self) -> None:
            self.classes = list(all_errors())

        async def handle(self, request: Message, call: Call) -> Message:
            raise self.classes[0]("what is wrong, and what to do")

    source = NextError()
    async with serving(source.handle, tmp_path) as served:
        while source.classes:
            failure = await served.failure()
            again = await raised_again(served)
            cls = source.classes.pop(0)
            assert type(again) is cls
            code = next(STATUS_OF[base] for base in cls.__mro__ if base in STATUS_OF)  # the most specific base
            assert (failure.code, failure.reason) == (code, cls.reason)
            assert failure.message == "what is wrong, and what to do"


async def raised_again(served: Served) -> SubagentsError:
    """Return what the SDK makes of the failure."""
    try:
        await _read(served)
    except grpc.aio.AioRpcError as failure:
        return error_from(failure, "BindTurn")
    raise AssertionError("the call did not fail")


@pytest.mark.parametrize(
    ("error", "metadata", "retry_after"),
    [
        (UnknownChild("no such child", metadata={"child_id": "c-1"}), {"child_id": "c-1"}, None),
        (StoreUnavailable("not now", retry_after=timedelta(milliseconds=1500)), {}, 1.5),
    ],
)
async def test_details_travel_with_the_status(
    error: SubagentsError, metadata: dict[str, str], retry_after: float | None, tmp_path: Path
) -> None:
    """Facts for a program, and advice when to come back."""
    async with serving(raising(error), tmp_path) as served:
        failure = await served.failure()
        assert (failure.metadata, failure.retry_after) == (metadata, retry_after)


async def test_calls_in_flight_are_counted_until_they_are_answered(tmp_path: Path) -> None:
    """What a drain waits for: two calls, one answered, the other left by its client."""
    gates: list[asyncio.Event] = []
    arrived = asyncio.Semaphore(0)

    async def handle(request: Message, call: Call) -> Message:
        gates.append(asyncio.Event())
        arrived.release()
        await gates[-1].wait()
        return pb.BindTurnResponse()

    async with serving(handle, tmp_path) as served:
        first = asyncio.ensure_future(_read(served))
        await arrived.acquire()
        second = raw(served.channel, METHOD)
        await arrived.acquire()
        in_flight = served.around.in_flight
        assert (in_flight.count, in_flight.by_method()) == (2, {METHOD: 2})
        gates[0].set()
        await first
        second.cancel()
        await in_flight.idle()
        assert in_flight.by_method() == {}


async def _read(served: Served) -> Sequence[bytes]:
    return [each async for each in raw(served.channel, METHOD)]


async def test_a_call_with_too_little_time_left_is_refused_at_the_door(tmp_path: Path) -> None:
    """50 ms left where 100 are needed: refused at once with advice, and nothing is begun."""
    begun: list[Message] = []

    async def handle(request: Message, call: Call) -> Message:
        begun.append(request)
        return pb.BindTurnResponse()

    async with serving(handle, tmp_path) as served:
        failure = await served.failure(seconds=0.05)
        assert failure.code in {StatusCode.RESOURCE_EXHAUSTED, StatusCode.DEADLINE_EXCEEDED}
        assert begun == []


async def test_health_has_a_lane_of_its_own(tmp_path: Path) -> None:
    """Answered with little time left, not waited for by a drain, and told to those who watch when it changes."""
    health = Health(["some.Service"])
    async with serving(raising(RuntimeError()), tmp_path, *health.methods()) as served:
        watch = raw(served.channel, WATCH, seconds=None)
        assert await watch.read() == b"\x08\x02"
        assert served.around.in_flight.count == 0
        await health.set_serving(True)
        assert await watch.read() == b"\x08\x01"
        (answer,) = [each async for each in raw(served.channel, "/grpc.health.v1.Health/Check", b"", seconds=0.09)]
        assert answer == b"\x08\x01"
        unknown = await raw_failure(served.channel, "/grpc.health.v1.Health/Check", b"\x0a\x01x")
        assert unknown.code is StatusCode.NOT_FOUND
        watch.cancel()


async def test_of_too_many_calls_only_those_that_end_work_are_served(tmp_path: Path) -> None:
    """Both places are taken: a third call is refused with its limit and advice, `EndTurn` and health are answered."""
    may_end, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def handle(request: Message, call: Call) -> Message:
        arrived.release()
        await may_end.wait()
        return pb.BindTurnResponse()

    async def end(request: Message, call: Call) -> Message:
        return pb.EndTurnResponse()

    shape, health = MethodShape.ONE_TO_ONE, Health(["some.Service"])
    ending = Method(DISPATCH + "EndTurn", shape, pb.EndTurnRequest.FromString, end, ends_work=True)
    async with serving(handle, tmp_path, ending, *health.methods(), most_calls=2) as served:
        running = [asyncio.ensure_future(_read(served)) for _ in range(2)]
        for _ in running:
            await arrived.acquire()

        refused = await served.failure()
        assert (refused.code, refused.reason) == (StatusCode.RESOURCE_EXHAUSTED, "ADMISSION_REFUSED")
        assert (refused.metadata, refused.retry_after) == ({"limit": "calls", "most": "2"}, 0.25)
        assert [each async for each in raw(served.channel, ending.name)] == [b""]
        assert [each async for each in raw(served.channel, "/grpc.health.v1.Health/Check")] == [b"\x08\x02"]

        may_end.set()
        await asyncio.gather(*running)
        assert await _read(served) == [b""]


async def test_watches_of_health_are_limited(tmp_path: Path) -> None:
    """They need no secret: one more than there may be is refused, until another one has left."""
    health = Health(["some.Service"])
    async with serving(raising(RuntimeError()), tmp_path, *health.methods()) as served:
        watches = [raw(served.channel, WATCH, seconds=None) for _ in range(MOST_WATCHES)]
        assert {await watch.read() for watch in watches} == {b"\x08\x02"}

        refused = await raw_failure(served.channel, WATCH)
        assert (refused.reason, refused.metadata.get("limit")) == ("ADMISSION_REFUSED", "health_watches")

        watches.pop().cancel()
        for _ in range(100):
            watches.append(raw(served.channel, WATCH, seconds=None))
            try:
                assert await watches[-1].read() == b"\x08\x02"
                break
            except grpc.aio.AioRpcError:
                watches.pop()
        assert len(watches) == MOST_WATCHES
        for watch in watches:
            watch.cancel()
