"""What the SDK does for its caller: it outlasts a restart, ends turns, says what to do, and names what runs."""

import asyncio
from datetime import timedelta
from pathlib import Path
from random import Random

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider

from clients.python.tests.support.fake_sidecar_host import CALLS, FakeSidecar, scene
from subagents.dispatch.v1 import dispatch_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client import BoundTurn, ClientRuntime, ClientTimeouts, SidecarClient
from subagents_client.retrying import retry_idempotent
from subagents_client.runner.gateway import Gateways
from subagents_errors import DependencyUnavailable, Draining, StoreUnavailable, Unauthenticated


class Time:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.pauses.append(seconds)
        self.now += seconds


async def ended_within(turn: BoundTurn, narration: str) -> None:
    """End a turn inside of its context manager."""
    async with turn:
        await turn.end(narration)


def away() -> grpc.aio.AioRpcError:
    """Return what gRPC raises when no process listens."""
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())


@pytest.mark.parametrize("seed", range(20))
async def test_a_bind_outlasts_a_restart_of_three_seconds(seed: int) -> None:
    """Within its deadline, in pauses that differ by chance; the sidecar is back after 3 s of the test's clock."""
    time, timeouts = Time(), ClientTimeouts()

    async def send(left: float) -> str:
        if time.now < 3:
            raise away()
        return f"{left > 0}"

    around = ClientRuntime(now=lambda: time.now, sleep=time.sleep, chance=Random(seed))
    assert await retry_idempotent(send, "BindTurn", timeouts.bind, timeouts, around) == "True"
    assert max(time.pauses) <= 0.5
    assert len(set(time.pauses)) == len(time.pauses)


async def test_a_bind_gives_up_at_its_deadline_and_not_before() -> None:
    """A sidecar that stays away: the last attempt is within one pause of the deadline."""
    time, timeouts = Time(), ClientTimeouts()

    async def send(_left: float) -> str:
        raise away()

    around = ClientRuntime(now=lambda: time.now, sleep=time.sleep, chance=Random(1))
    with pytest.raises(DependencyUnavailable):
        await retry_idempotent(send, "BindTurn", timeouts.bind, timeouts, around)
    assert 4.5 <= time.now < 5


async def test_a_bind_that_meets_a_draining_sidecar_waits_for_the_next_one() -> None:
    """More refusals than `most_attempts`, over a socket."""
    async with scene() as here:
        here.sidecar.refusals["BindTurn"].extend(Draining("later") for _ in range(8))
        await here.turn()

    assert here.sidecar.methods() == ["BindTurn"] * 9


async def test_every_request_names_the_current_trace() -> None:
    """`traceparent` of OpenTelemetry's span, without a line of the caller's."""
    sidecar = FakeSidecar()
    async with scene(sidecar) as here:
        with TracerProvider().get_tracer("test").start_as_current_span("turn") as span:
            turn = await here.turn()
            await turn.end()
        await turn.end()

    expected = f"{span.get_span_context().trace_id:032x}"
    assert [one.split("-")[1] for one in sidecar.traces] == [expected, expected]


async def test_an_unreachable_sidecar_is_named_with_its_address_and_advice() -> None:
    """What failed, where, and what to do."""
    async with scene() as here:
        await here.die()
        with pytest.raises(DependencyUnavailable) as caught:
            await here.client.bind_turn(here.request, timeout=timedelta(milliseconds=100))

    assert f"BindTurn at {here.target}" in str(caught.value)
    assert "check that the sidecar runs" in str(caught.value)


async def test_a_tool_that_cannot_be_called_is_named_with_its_gateway(tmp_path: Path) -> None:
    """On the host side, too: which tool, and at which address."""
    gateways, target = Gateways(allow_remote=False), f"unix:{tmp_path}/none"
    try:
        with pytest.raises(DependencyUnavailable) as caught:
            await gateways.call(target, "grant", tools_pb2.CallToolRequest(tool_id="search_offers"), 5.0)
    finally:
        await gateways.close()
    assert f"CallTool of search_offers at {target}" in str(caught.value)


async def test_an_error_of_the_sidecar_keeps_its_words_and_says_where_and_what_to_do() -> None:
    """The traceback shows the note; the message stays the sidecar's."""
    async with scene() as here:
        here.sidecar.refusals["BindTurn"].append(Unauthenticated("the boot secret is wrong"))
        with pytest.raises(Unauthenticated, match="the boot secret is wrong") as caught:
            await here.turn()

    assert str(caught.value) == "the boot secret is wrong"
    assert f"BindTurn at {here.target}" in caught.value.__notes__[0]
    assert "the boot secret is the one that the sidecar wrote" in caught.value.__notes__[0]
    assert "(docs/errors.md#unauthenticated)" in caught.value.__notes__[0]


async def test_a_secret_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """And which setting names it."""
    with pytest.raises(FileNotFoundError) as caught:
        SidecarClient.connect("unix:/x", boot_secret_file=tmp_path / "none")
    assert str(tmp_path / "none") in caught.value.__notes__[0]
    assert "server.boot_secret_file" in caught.value.__notes__[0]


@pytest.mark.parametrize("problem", [ValueError("defect of the caller"), asyncio.CancelledError()])
async def test_a_turn_that_is_left_by_an_exception_is_ended(problem: BaseException) -> None:
    """The exception comes through; children whose answers were not used are rejected."""
    async with scene() as here:
        turn = await here.turn()

        async def left() -> None:
            async with turn:
                await turn.dispatch_and_wait(CALLS)
                raise problem

        with pytest.raises(type(problem)):
            await left()
        end = here.sidecar.received[-1][1]

    assert here.sidecar.methods() == ["BindTurn", "Dispatch", "EndTurn"]
    assert isinstance(end, dispatch_pb2.EndTurnRequest)
    assert [one.verdict for one in end.integrations] == [dispatch_pb2.VERDICT_REJECTED] * 2


async def test_a_turn_that_was_ended_is_not_ended_again() -> None:
    """And if the first try failed, the same request is sent again, so that its contents are the same."""
    async with scene() as here:
        async with await here.turn() as turn:
            await turn.end("Here you are.")
        assert here.sidecar.methods() == ["BindTurn", "EndTurn"]

        here.sidecar.refusals["EndTurn"].extend(StoreUnavailable("later") for _ in range(4))
        with pytest.raises(StoreUnavailable):
            await ended_within(await here.turn(), "Something else.")
        last = here.sidecar.received[-1][1]

    assert isinstance(last, dispatch_pb2.EndTurnRequest)
    assert last.narration == "Something else."


async def test_a_user_interface_sees_what_runs_and_cancels_it() -> None:
    """By the ids of the running dispatch; afterwards there is nothing to see."""
    sidecar = FakeSidecar(hangs=True)
    async with scene(sidecar) as here:
        turn = await here.turn()
        asking = asyncio.ensure_future(turn.dispatch_and_wait(CALLS))
        await sidecar.reached.wait()
        running = turn.running
        stopped = await turn.cancel_dispatch(running[0].dispatch_id)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

        assert [one.calls for one in running] == [tuple(CALLS)]
        assert stopped == 2
        assert sidecar.methods()[-2:] == ["CancelCall", "CancelCall"]
        assert turn.running == []
        with pytest.raises(ValueError, match="no dispatch 'nothing' in turn"):
            await turn.cancel_dispatch("nothing")
