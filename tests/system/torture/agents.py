"""Sub-agents in the test's own process, so that they outlive every sidecar; they count how often each is started."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

from subagents_client.runner import HostLimits, Run, RunnerHost

SLOTS: Final = ("shop", "rewards")
MOST_ATTEMPTS: Final = 2
"""`max_retries` of both in the example's definitions, and the first attempt."""
LONGEST_WORK: Final = 0.12
"""Seconds that a sub-agent takes at most, unless it is to wait."""
WAITS: Final = "wait"
"""The first attempt at a request with this word in it is answered when `may_answer` is set."""


@dataclass
class Agents:
    """The sub-agents of one test.

    Attributes:
        started: attempts that were begun, by child.
        numbers: number of each attempt that was begun, by child.
        runs: the attempts themselves, in order.
        news: set whenever one begins.
        may_answer: lets those that wait go on.
    """

    chosen: Random
    started: Counter[str] = field(default_factory=Counter)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, run: Run) -> str:
        """Take note, work for a moment, answer."""
        self.started[run.child_id] += 1
        self.numbers.setdefault(run.child_id, []).append(run.attempt)
        self.runs.append(run)
        self.news.set()
        if WAITS in run.request and run.attempt == 1:
            await self.may_answer.wait()
        else:
            await pause(self.chosen.uniform(0.0, LONGEST_WORK))
        return f"{run.sub_agent_id} {run.child_id}: {run.request}"

    async def until_started(self, count: int) -> None:
        """Wait until so many attempts were begun in all."""
        while self.started.total() < count:
            self.news.clear()
            await self.news.wait()

    def check(self) -> None:
        """Fail if a child was attempted more often than its definition allows, or an attempt was made twice."""
        for child, count in self.started.items():
            assert count <= MOST_ATTEMPTS, f"{child} was started {count} times"
            assert len(set(self.numbers[child])) == count, f"{child} had the attempts {self.numbers[child]}"


async def pause(seconds: float) -> None:
    """Let so much time go by: processes are tortured in real time, there is no event to wait for."""
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _pass, passed)
    try:
        await passed
    finally:
        timer.cancel()


def _pass(passed: asyncio.Future[None]) -> None:
    if not passed.done():  # the waiting task may have been cancelled in this pass
        passed.set_result(None)


@asynccontextmanager
async def agents_for(folder: Path, chosen: Random) -> AsyncIterator[Agents]:
    """Serve the sub-agents where the sidecar of a folder looks for them."""
    agents = Agents(chosen)
    async with AsyncExitStack() as hosts:
        for slot in SLOTS:
            host = RunnerHost(limits=HostLimits(grace=timedelta(milliseconds=200)))
            host.sub_agent(slot)(agents.work)
            await hosts.enter_async_context(host.serving(f"unix:{folder}/{slot}.sock"))
        yield agents
        agents.may_answer.set()


def share_agents(folder: Path, other: Path) -> None:
    """Let the sidecar of another folder find the same sub-agents."""
    for slot in SLOTS:
        (other / f"{slot}.sock").symlink_to(folder / f"{slot}.sock")
