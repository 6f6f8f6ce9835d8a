"""Two sidecars on one PostgreSQL: one is killed, or stopped for longer than its lease, and clients go on at the other.

Short in `make test`; `SIDECAR_TORTURE_SECONDS` makes the random run last as long. Prints figures.
"""

import asyncio
import signal
from asyncio import Task
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from subagents_client import BoundTurn, DispatchResult, Limits, SidecarClient, ToolCall, TurnRequest
from subagents_errors import GrantSpent, RecordConflict
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place
from tests.system.torture.agents import WAITS, Agents, agents_for, pause, share_agents
from tests.system.torture.checker import PostgresDatabase, compare, figures, over
from tests.system.torture.clients import Told, clients_at_work, plain
from tests.system.torture.places import (
    LIMIT,
    SECONDS,
    client_of,
    dice,
    seed,
    serving,
    settings_of,
    signed,
    tell,
    verified,
)

pytestmark = pytest.mark.system

CALLS = (
    ToolCall("call-1", "ask_shop", f'{{"request": "{WAITS}"}}'),
    ToolCall("call-2", "ask_rewards", f'{{"request": "{WAITS}"}}'),
    ToolCall("call-3", "ask_nobody"),
)
OUTCOMES = ["succeeded", "succeeded", "refused"]
PATIENT = Limits(unreachable_after=timedelta(seconds=2), unary=timedelta(seconds=5), most_attempts=1)
"""A client that leaves it to us to ask again."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own."""
    with running_postgres() as server:
        yield server


@dataclass
class Pair:
    """Two sidecars on one database, and the sub-agents of both."""

    folders: tuple[Path, Path]
    running: list[SidecarProcess]
    agents: Agents
    database: PostgresDatabase

    async def begin(self, client: SidecarClient, name: str) -> "Task[DispatchResult]":
        """Have a turn's dispatch begun by two sub-agents that wait, and one call that nobody takes."""
        turn = await client.bind_turn(TurnRequest(principal=name, episode_id=name, turn_id=name))
        listening = asyncio.ensure_future(turn.dispatch_and_wait(CALLS, dispatch_id="d-1"))
        await self.agents.until_started(self.agents.started.total() + 2)
        return listening

    async def go_on(self, name: str) -> tuple[BoundTurn, DispatchResult]:
        """Ask the second sidecar for the same, with nothing but the ids."""
        async with client_of(self.folders[1], PATIENT) as client:
            turn = await client.bind_turn(TurnRequest(principal=name, episode_id=name, turn_id=name))
            result = await turn.dispatch_and_wait(CALLS, dispatch_id="d-1")
            await turn.end("Two answers.", user_message="Hello")
            return turn, result


@asynccontextmanager
async def pair(server: PostgresServer, chosen: Random, **environment: str) -> AsyncIterator[Pair]:
    """Start both; in the end, the second one has closed what the first one left, and the record is whole."""
    database = server.new_database()
    with place() as one, place() as two:
        share_agents(one, two)
        settings = [settings_of(folder, one, server.dsn(database)) for folder in (one, two)]
        kept = PostgresDatabase(server, database)
        async with (
            agents_for(one, chosen) as agents,
            serving(one, settings[0], **environment) as first,
            serving(two, settings[1], **environment) as second,
        ):
            yield Pair((one, two), [first, second], agents, kept)
            await over(kept)
            second.signal(signal.SIGTERM)
            assert await second.ended() == 0
        await verified(two, *([one] if signed(one) else []))
        agents.check()


@requirement("SX-28", "SX-50")
@pytest.mark.seconds(60)
async def test_what_one_sidecar_began_the_other_goes_on_with(server: PostgresServer) -> None:
    """First one that is stopped for longer than its lease, then one that is killed: each call has its one outcome."""
    async with pair(server, dice(1)) as both, client_of(both.folders[0], PATIENT) as client:
        first = both.running[0]
        listening = await both.begin(client, "stopped")
        begun = list(both.agents.runs)
        first.signal(signal.SIGSTOP)
        try:
            _, taken = await both.go_on("stopped")
        finally:
            first.signal(signal.SIGCONT)
        await first.event("sidecar.anomaly", lambda event: event["kind"] == "lease_lapsed")
        for run in begun:  # the lease is held again: what was granted before stays dead all the same
            with pytest.raises(GrantSpent):
                await run.call_tool("search_offers", {"query": "socks"})
        both.agents.may_answer.set()
        told = await listening

        assert [plain(each).outcome for each in taken.outcomes] == OUTCOMES
        assert isinstance(told.cause, RecordConflict)
        both.agents.may_answer.clear()
        listening = await both.begin(client, "killed")
        first.signal(signal.SIGKILL)
        await first.ended()
        _, taken = await both.go_on("killed")

        assert [plain(each).outcome for each in taken.outcomes] == OUTCOMES
        assert (await listening).synthesised
        assert sorted(both.agents.started.values()) == [2, 2, 2, 2]
    found = compare(Told(), both.database)
    assert found.children == 4
    assert (found.lost, found.doubled) == ([], [])


@requirement("SX-38")
@pytest.mark.seconds(LIMIT)
async def test_nothing_is_lost_or_doubled_when_either_of_two_is_killed_or_stopped(server: PostgresServer) -> None:
    """Clients go to whichever they please, and go on at whichever answers."""
    number = seed()
    chosen = dice(number)
    done = Counter[str]()
    async with pair(server, chosen, SIDECAR__DISPATCH__TURN_LIFETIME="4s") as both, _at_work(both, chosen) as told:
        until = asyncio.get_running_loop().time() + SECONDS
        while not done or asyncio.get_running_loop().time() < until:
            await told.progress(10)
            await _stop_and_continue(chosen.choice(both.running), chosen)
            done["stops"] += 1
        await told.progress(10)
        both.running[0].signal(signal.SIGKILL)
        done["kills"] += 1
        await told.progress(10)
    found = compare(told, both.database)
    tell("two sidecars", number, {**done, **figures(told, found)})
    assert (found.lost, found.doubled, found.odd) == ([], [], [])


def _at_work(both: Pair, chosen: Random) -> AbstractAsyncContextManager[Told]:
    return clients_at_work(lambda: client_of(chosen.choice(both.folders)), chosen)


async def _stop_and_continue(sidecar: SidecarProcess, chosen: Random) -> None:
    """Stop it for less than its lease, or for more."""
    sidecar.signal(signal.SIGSTOP)
    try:
        await pause(chosen.uniform(0.2, 3.0))
    finally:
        sidecar.signal(signal.SIGCONT)
