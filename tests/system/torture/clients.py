"""Clients that have turns through the Python SDK while sidecars die, and remember what they were told.

A client that gets no answer asks again with the same ids, sometimes as a process that was started anew would: over
another connection, with nothing but the ids. It never gives up, so that every promise comes due.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, TypeVar

from subagents_client import (
    BoundTurn,
    CallOutcome,
    DispatchResult,
    Integration,
    SidecarClient,
    ToolCall,
    TurnEnd,
    TurnRequest,
    Verdict,
)
from subagents_errors import (
    DeadlineExceeded,
    DependencyUnavailable,
    Overloaded,
    RecordConflict,
    SurfaceTokenExpired,
    TurnEnded,
)
from tests.system.torture.agents import pause

Given = TypeVar("Given")

PACE: Final = 0.05
CLIENTS: Final = 3
LEFT: Final = 0.15
"""How likely a turn is left to the reaper."""
CLOSED_BEFORE: Final = 0.3
"""How likely a child is closed before its turn."""
HEARD_AGAIN: Final = 0.3
"""How likely a settled dispatch is asked for once more."""
FORGETS: Final = 0.5
"""How likely a client that was refused goes on as a new process would."""
COME_AGAIN: Final = (DependencyUnavailable, DeadlineExceeded, Overloaded, RecordConflict)
"""What a client may be told while something it needs is away. Anything else fails the test."""
Connect = Callable[[], SidecarClient]


@dataclass(frozen=True)
class Settled:
    """What was told of one call, as plain values."""

    call_id: str
    outcome: str
    child_id: str
    narration: str
    reason: str
    attempts: int


@dataclass
class Told:
    """What all clients asked for, and what they were told. Kept by nobody else.

    Attributes:
        asked: calls of each dispatch, by turn and dispatch.
        outcomes: told once, or the same again.
        ends: final status and close reason of each child, by turn.
        narrations: what a turn that was ended was ended with.
        lost: turns left to the reaper.
        refused: how often somebody had to ask again.
        wrong: answers that contradict one from before.
        heard: when each outcome and end was first heard, in ns of the monotonic clock, by dispatch or turn.
    """

    asked: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], list[Settled]] = field(default_factory=dict)
    ends: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    narrations: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    heard: dict[tuple[str, ...], int] = field(default_factory=dict)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    working: "Sequence[asyncio.Task[None]]" = ()

    @property
    def acknowledged(self) -> int:
        """How many outcomes and ends were told."""
        return sum(len(each) for each in self.outcomes.values()) + len(self.ends)

    def hear_outcomes(self, turn_id: str, result: DispatchResult) -> None:
        """Keep what a dispatch came to; what was told before must be told again."""
        key = (turn_id, result.dispatch_id)
        told = [plain(each) for each in result.outcomes]
        self.heard.setdefault(key, time.monotonic_ns())
        if self.outcomes.setdefault(key, told) != told:
            self.wrong.append(f"{key}: first {self.outcomes[key]}, then {told}")
        self.moved.set()

    def hear_end(self, turn_id: str, narration: str, end: TurnEnd) -> None:
        """Keep how a turn ended."""
        told = {each.child_id: (str(each.final_status), str(each.close_reason)) for each in end.children}
        self.heard.setdefault((turn_id,), time.monotonic_ns())
        if self.ends.setdefault(turn_id, told) != told:
            self.wrong.append(f"{turn_id}: first {self.ends[turn_id]}, then {told}")
        came_late = end.routing_decision.close_reason == "parent_lost"  # told that nobody had said anything
        self.narrations[turn_id] = "" if came_late else narration
        self.moved.set()

    def before(self, moment: int) -> "Told":
        """Return what had been told by then, in ns of the monotonic clock."""
        outcomes = {key: each for key, each in self.outcomes.items() if self.heard[key] <= moment}
        ends = {turn: each for turn, each in self.ends.items() if self.heard[(turn,)] <= moment}
        return replace(self, outcomes=outcomes, ends=ends)

    async def progress(self, more: int) -> None:
        """Wait until so much more was told. Raises what a client failed with."""
        wanted = self.acknowledged + more
        await self.until(lambda: self.acknowledged >= wanted)

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until something is so; looked at after each answer. Raises what a client failed with."""
        while not happened():
            for each in self.working:
                if each.done():
                    each.result()
            self.moved.clear()
            await self.moved.wait()


def plain(outcome: CallOutcome) -> Settled:
    """Return what matters of an outcome."""
    reason = outcome.status.reason if outcome.status else ""
    return Settled(
        outcome.call_id, outcome.outcome.value, outcome.child_id, outcome.narration, str(reason), outcome.attempts
    )


class Client:
    """One client: has one turn after the other.

    Args:
        connect: to whichever sidecar; asked anew for every connection.
        left: how likely a turn is left to the reaper.
    """

    def __init__(self, name: str, connect: Connect, told: Told, chosen: Random, left: float = LEFT) -> None:
        self._name, self._connect, self._told, self._chosen, self._left = name, connect, told, chosen, left
        self._client: SidecarClient | None = None
        self._turn: BoundTurn | None = None
        self._stopping = False

    def stop(self) -> None:
        """Bring the turn that has begun to its end, and begin no other."""
        self._stopping = True

    async def work(self) -> None:
        """Have turns until told to stop."""
        number = 0
        try:
            while not self._stopping:
                number += 1
                turn_id, self._turn = f"{self._name}-{number}", None
                try:
                    await self._have(turn_id)
                except (TurnEnded, SurfaceTokenExpired):
                    self._told.lost.append(turn_id)  # it took longer than a turn may live
        finally:
            await self._hang_up()

    async def _have(self, turn_id: str) -> None:
        children: list[str] = []
        for number in range(self._chosen.choice((1, 1, 2))):
            result = await self._dispatch(turn_id, f"d-{number + 1}")
            children += [each.child_id for each in result.outcomes if each.answered]
        if self._chosen.random() < self._left:
            self._told.lost.append(turn_id)
            return
        rejected = [Integration(children[0], Verdict.REJECTED, "not what was asked")] if children else []
        if rejected and self._chosen.random() < CLOSED_BEFORE:
            await self._ask(turn_id, lambda turn: turn.close_child(rejected[0]))
        narration = f"That was {turn_id}."
        end = await self._ask(turn_id, lambda turn: turn.end(narration, rejected, user_message="Hello"))
        self._told.hear_end(turn_id, narration, end)

    async def _dispatch(self, turn_id: str, dispatch_id: str) -> DispatchResult:
        """Ask until the outcomes come from the sidecar itself; sometimes once more, to hear the same."""
        calls = self._calls(dispatch_id)
        self._told.asked[turn_id, dispatch_id] = [each.call_id for each in calls]
        while True:
            result = await self._ask(turn_id, lambda turn: turn.dispatch_and_wait(calls, dispatch_id=dispatch_id))
            if not result.synthesised:
                self._told.hear_outcomes(turn_id, result)
                if self._chosen.random() >= HEARD_AGAIN:
                    return result
            else:
                await self._refused()

    def _calls(self, dispatch_id: str) -> list[ToolCall]:
        tools = self._chosen.choice(
            (["ask_shop"], ["ask_shop", "ask_rewards"], ["ask_rewards", "ask_nobody", "ask_shop"], ["ask_shop"] * 4)
        )
        return [
            ToolCall(f"call-{place}", tool, json.dumps({"request": f"{dispatch_id}, call {place}"}))
            for place, tool in enumerate(tools)
        ]

    async def _ask(self, turn_id: str, ask: Callable[[BoundTurn], Awaitable[Given]]) -> Given:
        """Ask something of a turn until it is answered."""
        while True:
            try:
                return await ask(self._turn or await self._bound(turn_id))
            except COME_AGAIN:
                await self._refused()

    async def _bound(self, turn_id: str) -> BoundTurn:
        if self._client is None:
            self._client = self._connect()
        request = TurnRequest(principal=self._name, episode_id=f"episode-{self._name}", turn_id=turn_id)
        self._turn = await self._client.bind_turn(request)
        return self._turn

    async def _refused(self) -> None:
        """Wait a moment; then go on, or forget everything but the ids."""
        self._told.refused += 1
        self._told.moved.set()
        await pause(PACE)
        if self._chosen.random() < FORGETS:
            await self._hang_up()

    async def _hang_up(self) -> None:
        client, self._client, self._turn = self._client, None, None
        if client is not None:
            await client.close()


@asynccontextmanager
async def clients_at_work(connect: Connect, chosen: Random, left: float = LEFT) -> AsyncIterator[Told]:
    """Have clients work; then let each come to the end of its turn. What goes wrong in one shows at the end."""
    told = Told()
    prefix = f"{chosen.randrange(10**6)}"
    clients = [Client(f"user-{prefix}-{number}", connect, told, chosen, left) for number in range(CLIENTS)]
    working = [asyncio.ensure_future(client.work()) for client in clients]
    for each in working:
        each.add_done_callback(lambda _: told.moved.set())
    told.working = working
    try:
        yield told
        for client in clients:
            client.stop()
        await asyncio.gather(*working)
    finally:
        for each in working:
            each.cancel()
        await asyncio.gather(*working, return_exceptions=True)
