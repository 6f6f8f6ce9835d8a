"""What ended turns with large answers, watchers that do not read, and watches of health keep in the process.

Few in `make test`; `SIDECAR_TORTURE_HELD` sets how many there are of each. The figures are printed. With 200 of each
the process grew by 560 MiB for ended turns and by 645 MiB for watchers before they had limits.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from subagents.history.v1 import history_pb2, history_pb2_grpc
from subagents_client import SidecarClient, ToolCall, TurnRequest
from subagents_client.runner import HostLimits, Run, RunnerHost
from tests.support.sidecar_process import SidecarProcess, place, started
from tests.system.torture.places import strikes, tell
from tests.system.torture.test_hostile_connections import memory_of

pytestmark = [pytest.mark.system, pytest.mark.seconds(300)]

HELD: Final = strikes("HELD", 40)
"""Ended turns, and watchers; watches of health are 50 times as many."""
ANSWER: Final = 255_000
"""Characters; just below what one answer may have."""
MOST: Final = 160 * 1024 * 1024
"""Bytes by which the process may grow: 64 MiB for the answers of ended turns, and what allocators keep."""
METADATA: Final = "x-subagents-boot-secret"


@asynccontextmanager
async def served() -> AsyncIterator[tuple[SidecarProcess, SidecarClient]]:
    """Have a sidecar whose sub-agent answers at length."""

    async def shop(run: Run) -> str:
        return "x" * ANSWER

    with place() as folder:
        async with AsyncExitStack() as opened:
            host = RunnerHost(limits=HostLimits())
            host.sub_agent("shop")(shop)
            await opened.enter_async_context(host.serving(f"unix:{folder}/shop.sock"))
            sidecar = await opened.enter_async_context(started(folder))
            await sidecar.event("sidecar.readiness")
            yield sidecar, await opened.enter_async_context(sidecar.client())


async def a_turn(client: SidecarClient, number: int, calls: int = 3) -> None:
    """Have a turn with large answers, and end it."""
    turn = await client.bind_turn(
        TurnRequest(principal=f"user-{number}", episode_id=f"e-{number}", turn_id=f"t-{number}")
    )
    asked = [ToolCall(f"call-{place}", "ask_shop", '{"request": "food"}') for place in range(calls)]
    result = await turn.dispatch_and_wait(asked)
    assert [each.outcome.value for each in result.outcomes] == ["succeeded"] * calls
    await turn.end("Done.", user_message="Hello")


async def test_ended_turns_with_large_answers_are_kept_within_a_limit() -> None:
    """Each has three answers of 255 KB."""
    async with served() as (sidecar, client):
        await a_turn(client, 0)
        before = memory_of(sidecar)
        for number in range(1, HELD + 1):
            await a_turn(client, number)
        more = memory_of(sidecar) - before
    tell("ended turns", 0, {"turns": HELD, "MiB more": more >> 20, "KiB each": (more >> 10) // HELD})
    assert more < MOST


async def test_watchers_that_do_not_read_are_kept_within_a_limit() -> None:
    """Of a turn with three answers of 255 KB; each that is accepted reads nothing."""
    async with served() as (sidecar, client):
        await a_turn(client, 0)
        before = memory_of(sidecar)
        async with unread(Path(sidecar.folder), sidecar.boot_secret) as (accepted, refused):
            more = memory_of(sidecar) - before
    tell("watchers", 0, {"asked": HELD, "accepted": accepted, "refused": refused, "MiB more": more >> 20})
    assert accepted + refused == HELD
    assert more < MOST


@asynccontextmanager
async def unread(folder: Path, secret: str) -> AsyncIterator[tuple[int, int]]:
    """Have watchers of a turn, each over a connection of its own that takes little that is not read."""
    options = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1))
    async with AsyncExitStack() as opened:
        calls = []
        for _ in range(HELD):
            target = f"unix:{folder}/dispatch/sidecar.sock"
            channel = await opened.enter_async_context(grpc.aio.insecure_channel(target, options=options))
            stub: Any = history_pb2_grpc.HistoryServiceStub(channel)
            request = history_pb2.WatchEventsRequest(turn_id="t-0")
            calls.append(stub.WatchEvents(request, metadata=((METADATA, secret),)))
        refused = 0
        for call in calls:
            try:
                await call.read()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                refused += 1
        yield HELD - refused, refused
        for call in calls:
            call.cancel()


async def test_watches_of_health_are_kept_within_a_limit() -> None:
    """They need no secret; of those beyond the limit each is refused."""
    count = 50 * HELD
    async with served() as (sidecar, _):
        before = memory_of(sidecar)
        async with grpc.aio.insecure_channel(f"unix:{sidecar.folder}/dispatch/sidecar.sock") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            calls = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(count)]
            answers = await asyncio.gather(*(call.read() for call in calls), return_exceptions=True)
            more = memory_of(sidecar) - before
            accepted = sum(isinstance(each, health_pb2.HealthCheckResponse) for each in answers)
            refused = sum(isinstance(each, grpc.aio.AioRpcError) for each in answers)
            for call in calls:
                call.cancel()
    tell("watches of health", 0, {"asked": count, "accepted": accepted, "MiB more": more >> 20})
    assert (accepted, accepted + refused) == (min(count, 256), count)
    assert more < MOST
