"""The database dies, cannot be reached, or its disk is full, while the sidecar and its sub-agents go on."""

import asyncio
import signal
import time
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from subagents_client import ClientTimeouts, DispatchResult, SidecarClient, ToolCall, TurnRequest
from subagents_errors import StoreUnavailable
from tests.support.postgres import PostgresServer
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place
from tests.system.postgres_faults.unreliable_network import Network, network_before
from tests.system.torture.agents import WAITS, Agents, agents_for, pause
from tests.system.torture.checker import PostgresDatabase, SqliteFile, compare, figures, over, spread
from tests.system.torture.clients import Told, clients_at_work
from tests.system.torture.full_disk import small_disk
from tests.system.torture.places import (
    LIMIT,
    SECONDS,
    client_of,
    dice,
    seed,
    serving,
    settings_of,
    tell,
    verified,
)

pytestmark = pytest.mark.system

ONCE = ClientTimeouts(most_attempts=1, unreachable_after=timedelta(seconds=2))
"""A client that leaves it to us to ask again."""
IMPATIENT = {"SIDECAR__RECORD__POSTGRESQL__STATEMENT_TIMEOUT": "1s", "SIDECAR__DISPATCH__TURN_LIFETIME": "30s"}
WAITING = [ToolCall("call-1", "ask_shop", f'{{"request": "{WAITS}"}}')]
QUICK_CALLS = [ToolCall("call-1", "ask_rewards", '{"request": "points"}')]


async def dispatched(client: SidecarClient, name: str) -> DispatchResult:
    """Have a turn of one dispatch; what it came to."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1", turn_id=name))
    result = await turn.dispatch_and_wait(QUICK_CALLS, dispatch_id="d-1")
    if not result.synthesised:
        await turn.end("One answer.", user_message="Hello")
    return result


async def refused_before_anybody_is_called(client: SidecarClient, agents: Agents, sidecar: SidecarProcess) -> None:
    """A new dispatch is refused, the sub-agents have heard nothing of it, and what needs no store answers."""
    before = agents.started.total()
    result = await dispatched(client, "refused")
    assert isinstance(result.cause, StoreUnavailable)
    assert agents.started.total() == before
    assert [(await sidecar.page(path)).status_code for path in ("/healthz", "/metrics")] == [200, 200]
    shown = (await sidecar.page("/readyz")).json()["record"]
    assert (shown["writable"], bool(shown["why"])) == (False, True)


async def goes_on(client: SidecarClient, name: str) -> float:
    """Wait until a dispatch succeeds again, and its turn ends; return the seconds that took.

    A connection that is back does not mean that all are: the end may be refused after the dispatch was not.
    """
    began = time.monotonic()
    while True:
        with suppress(StoreUnavailable):
            result = await dispatched(client, name)
            if not result.synthesised:
                assert [each.outcome.value for each in result.outcomes] == ["succeeded"]
                return time.monotonic() - began
        await pause(0.05)


@requirement("SX-38")
@pytest.mark.seconds(60)
async def test_on_a_full_disk_nobody_is_called_and_the_sidecar_goes_on_when_there_is_room() -> None:
    """What runs goes on, new work is refused before a sub-agent hears of it, reads answer; nobody starts anything."""
    with place() as folder, small_disk(folder / "record") as disk:
        more = settings_of(folder, folder)
        async with (
            agents_for(folder, dice(1)) as agents,
            serving(folder, more, **IMPATIENT) as sidecar,
            client_of(folder, ONCE) as client,
        ):
            await goes_on(client, "before")
            listening = await began(client, agents)
            disk.fill(sidecar.process.pid)
            await refused_before_anybody_is_called(client, agents, sidecar)
            listed = await client.history.list_turns()
            assert sorted(row.turn_id for row in listed.turns) == ["before", "running"]
            disk.make_room(sidecar.process.pid)
            await goes_on(client, "after")
            agents.may_answer.set()
            assert [each.outcome.value for each in (await listening).outcomes] == ["succeeded"]
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
        await verified(folder)
        found = compare(Told(), SqliteFile(folder / "record" / "record.sqlite"))
        assert (found.children, found.doubled) == (3, [])


@requirement("SX-38")
@pytest.mark.seconds(LIMIT)
async def test_a_database_that_dies_or_cannot_be_reached_is_found_again(server: PostgresServer) -> None:
    """Out of reach first, as in a partition; then killed again and again while clients have turns."""
    number = seed()
    chosen = dice(number)
    recovered: list[float] = []
    database = server.new_database()
    kept = PostgresDatabase(server, database)
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(place())
        network, dsn = await opened.enter_async_context(network_before(server, folder, database))
        agents = await opened.enter_async_context(agents_for(folder, chosen))
        more = settings_of(folder, folder, dsn, lease="5s")
        sidecar = await opened.enter_async_context(serving(folder, more, **IMPATIENT))
        recovered.append(await _out_of_reach(folder, network, agents, sidecar))
        async with clients_at_work(partial(client_of, folder), chosen, 0.0) as told:
            until = asyncio.get_running_loop().time() + SECONDS
            while len(recovered) < 2 or asyncio.get_running_loop().time() < until:
                await told.progress(chosen.randint(5, 30))
                server.kill()
                await asyncio.to_thread(server.start_again)
                began_again = time.monotonic()
                await told.progress(1)
                recovered.append(time.monotonic() - began_again)
        await over(kept)
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0
        await verified(folder)
    told.asked |= {(turn_id, "d-1"): ["call-1"] for turn_id in ("before", "running", "after")}
    found = compare(told, kept)
    again = {"s until it goes on": spread(recovered)}
    tell("database away", number, {"server kills": len(recovered) - 1, **figures(told, found), **again})
    assert (found.lost, found.doubled, found.odd) == ([], [], [])
    agents.check()


async def began(client: SidecarClient, agents: Agents) -> "asyncio.Task[DispatchResult]":
    """Begin a dispatch that waits for its sub-agent; the turn ends with it."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-2", turn_id="running"))

    async def waits() -> DispatchResult:
        result = await turn.dispatch_and_wait(WAITING, dispatch_id="d-1")
        await turn.end("One answer.", user_message="Hello")
        return result

    listening = asyncio.ensure_future(waits())
    await agents.until_started(agents.started.total() + 1)
    return listening


async def _out_of_reach(folder: Path, network: Network, agents: Agents, sidecar: SidecarProcess) -> float:
    """Let nothing pass between sidecar and database for a while; return how long it took to go on after that."""
    async with client_of(folder, ONCE) as client:
        await goes_on(client, "before")
        listening = await began(client, agents)
        network.silent = True
        await refused_before_anybody_is_called(client, agents, sidecar)
        network.silent = False
        network.cut()
        took = await goes_on(client, "after")
        agents.may_answer.set()
        assert [each.outcome.value for each in (await listening).outcomes] == ["succeeded"]
        return took
