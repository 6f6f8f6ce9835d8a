"""Two sidecars on one PostgreSQL: one is killed, or stopped for longer than its lease, and clients go on at the other.

Short in `make test`; `SIDECAR_TORTURE_SECONDS` makes the random run last as long. Prints figures.
"""

import asyncio
import signal
from asyncio import Task
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from sidecar.core.executing.records import DispatchTaken
from subagents_client import ClientTimeouts, DispatchResult, SidecarClient, ToolCall, TurnRequest
from subagents_errors import GrantSpent, RecordConflict
from tests.support.postgres import PostgresServer
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place
from tests.system.torture.agents import WAITS, Agents, agents_for, pause, share_agents
from tests.system.torture.checker import Kept, PostgresDatabase, compare, figures, over
from tests.system.torture.clients import Told, clients_at_work, plain
from tests.system.torture.faked_time import FakedTime
from tests.system.torture.lists import lists_hold
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

AT_ONCE = 5
"""Turns that run at a sidecar when it is stopped, or killed, all of them to be taken over."""
CALLS = (
    ToolCall("call-1", "ask_shop", f'{{"request": "{WAITS}"}}'),
    ToolCall("call-2", "ask_rewards", f'{{"request": "{WAITS}"}}'),
    ToolCall("call-3", "ask_nobody"),
)
LIFE = {"SIDECAR__DISPATCH__TURN_LIFETIME": "10s"}
LONGER_LIFE = {"SIDECAR__DISPATCH__TURN_LIFETIME": "30s"}
"""Of turns that a sidecar whose clock is 3 s ahead has to take over in time, also on a busy machine."""
OUTCOMES = ["succeeded", "succeeded", "refused"]
ONCE = ClientTimeouts(unreachable_after=timedelta(seconds=2), unary=timedelta(seconds=60), most_attempts=1)
"""A client that leaves it to us to ask again after an error."""
PATIENT = replace(ONCE, most_attempts=10)
"""A client that asks a busy sidecar again: machines that test are busy."""


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

    async def go_on(self, name: str) -> DispatchResult:
        """Ask the second sidecar for the same, with nothing but the ids."""
        async with client_of(self.folders[1], PATIENT) as client:
            turn = await client.bind_turn(TurnRequest(principal=name, episode_id=name, turn_id=name))
            result = await turn.dispatch_and_wait(CALLS, dispatch_id="d-1")
            await turn.end("Two answers.", user_message="Hello")
            return result

    def takeovers(self, turns: Sequence[str] | None = None) -> int:
        """Return how often a sidecar took another's dispatch, to go on with it or to close it; of some turns."""
        taken = Kept(self.database).of(DispatchTaken)
        return len([each for each in taken if turns is None or each.turn_id in turns])


def names(blow: str) -> list[str]:
    """Return the turns that are taken over after a blow."""
    return [f"{blow}-{number}" for number in range(AT_ONCE)]


@asynccontextmanager
async def pair(server: PostgresServer, chosen: Random, wrong: str = "") -> AsyncIterator[Pair]:
    """Start both; in the end, the second one has closed what the first one left, and the record is whole.

    Args:
        server: of the database.
        chosen: what is left to chance.
        wrong: by how much the wall clock of the second one is wrong, e.g. `+3600s`.
    """
    database = server.new_database()
    with place() as one, place() as two:
        share_agents(one, two)
        # With differing clocks, a takeover before the kill is a failure, so no lease may lapse on a busy machine.
        lease = "5s" if wrong else "1s"
        settings = [settings_of(folder, one, server.dsn(database), lease) for folder in (one, two)]
        kept = PostgresDatabase(server, database)
        clock = FakedTime(two, wrong).environment if wrong else {}
        life = LONGER_LIFE if wrong in {"+3s", "-3s"} else LIFE
        async with (
            agents_for(one, chosen) as agents,
            serving(one, settings[0], **life) as first,
            serving(two, settings[1], **life, **clock) as second,
        ):
            yield Pair((one, two), [first, second], agents, kept)
            await over(kept)
            second.signal(signal.SIGTERM)
            assert await second.ended() == 0
        await verified(two, *([one] if signed(one) else []))
        await lists_hold(two, kept)
        agents.check()


@requirement("SX-28", "SX-38", "SX-50")
@pytest.mark.seconds(LIMIT)
async def test_two_sidecars_lose_and_double_nothing_when_one_is_stopped_or_killed(server: PostgresServer) -> None:
    """Clients go to whichever they please; then one call after the other is followed over a stop and over a kill."""
    number = seed()
    chosen = dice(number)
    stops = 0
    async with pair(server, chosen) as both:
        async with _at_work(both, chosen) as told:
            until = asyncio.get_running_loop().time() + SECONDS
            while not stops or asyncio.get_running_loop().time() < until:
                await told.progress(10)
                await _stop_and_continue(chosen.choice(both.running), chosen)
                stops += 1
            await told.progress(10)
        forced = [*names("stopped"), *names("killed")]
        told.asked |= {(name, "d-1"): [each.call_id for each in CALLS] for name in forced}
        async with client_of(both.folders[0], ONCE) as client:
            await _taken_from_one_that_was_stopped(both, client)
            await _taken_from_one_that_was_killed(both, client)
    found = compare(told, both.database)
    seen = {"takeovers": both.takeovers(), "of them forced": both.takeovers(forced)}
    tell("two sidecars", number, {"stops": stops + 1, "kills": 1, **seen, **figures(told, found)})
    assert seen["of them forced"] == len(forced) == 2 * AT_ONCE
    assert (found.lost, found.doubled, found.odd) == ([], [], [])


@requirement("SX-38")
@pytest.mark.seconds(LIMIT)
@pytest.mark.parametrize("wrong", ["+3s", "-3s", "+3600s", "-3600s"] if SECONDS else ["+3s", "-3600s"])
async def test_replicas_whose_clocks_differ_lose_and_double_nothing(server: PostgresServer, wrong: str) -> None:
    """Leases follow the clock of the database: none is taken early. Deadlines are moments: far off, calls run out."""
    number = seed()
    chosen = dice(number)
    async with pair(server, chosen, wrong) as both:
        async with clients_at_work(lambda: client_of(chosen.choice(both.folders)), chosen, 0.0) as told:
            await told.progress(10)
        assert both.takeovers() == 0
        told.asked |= {(name, "d-1"): [each.call_id for each in CALLS] for name in names("killed")}
        async with client_of(both.folders[0], ONCE) as client:
            taken = await _killed_and_taken(both, client)
        assert both.takeovers(names("killed")) == AT_ONCE
    found = compare(told, both.database)
    tell(f"clocks that differ by {wrong}", number, figures(told, found))
    assert (found.lost, found.doubled, found.odd) == ([], [], [])
    if wrong in {"+3s", "-3s"}:
        assert [[plain(each).outcome for each in result.outcomes] for result in taken] == [OUTCOMES] * AT_ONCE


async def _taken_from_one_that_was_stopped(both: Pair, client: SidecarClient) -> None:
    """It comes back after its lease: its grants stay dead, its late answers are refused, its listeners are told."""
    first = both.running[0]
    lapsed = _lapses(first)
    listening = [await both.begin(client, name) for name in names("stopped")]
    begun = both.agents.runs[-2 * AT_ONCE :]
    first.signal(signal.SIGSTOP)
    try:
        taken = await asyncio.gather(*(both.go_on(name) for name in names("stopped")))
    finally:
        first.signal(signal.SIGCONT)
    await first.event("sidecar.anomaly", lambda _: _lapses(first) > lapsed)
    for run in begun:  # the lease is held again: what was granted before stays dead all the same
        with pytest.raises(GrantSpent):
            await run.call_tool("search_offers", {"query": "socks"})
    both.agents.may_answer.set()
    told = await asyncio.gather(*listening)
    assert [[plain(each).outcome for each in result.outcomes] for result in taken] == [OUTCOMES] * AT_ONCE
    assert all(isinstance(each.cause, RecordConflict) for each in told)


async def _taken_from_one_that_was_killed(both: Pair, client: SidecarClient) -> None:
    """Each call has its one outcome, from the second attempt."""
    begun = len(both.agents.runs)
    taken = await _killed_and_taken(both, client)
    children = [run.child_id for run in both.agents.runs[begun : begun + 2 * AT_ONCE]]
    assert [[plain(each).outcome for each in result.outcomes] for result in taken] == [OUTCOMES] * AT_ONCE
    assert [both.agents.numbers[child] for child in children] == [[1, 2]] * 2 * AT_ONCE


async def _killed_and_taken(both: Pair, client: SidecarClient) -> Sequence[DispatchResult]:
    """Kill the first sidecar while turns run there; return what the second one says of them."""
    both.agents.may_answer.clear()
    listening = [await both.begin(client, name) for name in names("killed")]
    both.running[0].signal(signal.SIGKILL)
    await both.running[0].ended()
    taken = await asyncio.gather(*(both.go_on(name) for name in names("killed")))
    assert all(each.synthesised for each in await asyncio.gather(*listening))
    return taken


def _lapses(sidecar: SidecarProcess) -> int:
    return len([event for event in sidecar.events if event.get("kind") == "lease_lapsed"])


def _at_work(both: Pair, chosen: Random) -> AbstractAsyncContextManager[Told]:
    return clients_at_work(lambda: client_of(chosen.choice(both.folders)), chosen, 0.05)


async def _stop_and_continue(sidecar: SidecarProcess, chosen: Random) -> None:
    """Stop it for less than its lease, or for more."""
    sidecar.signal(signal.SIGSTOP)
    try:
        await pause(chosen.uniform(0.2, 3.0))
    finally:
        sidecar.signal(signal.SIGCONT)
