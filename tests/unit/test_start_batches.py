"""Calls that arrive close together start in one pass of the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from sidecar.rpc.in_flight import LONGEST_PASSES, LONGEST_SECONDS, MOST, QUIET_PASSES, StartBatches
from tests.support.requirement import requirement


class PassCounter:
    """Counts the passes of the loop."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        self.number += 1
        self._loop.call_soon(self._pass)


@dataclass
class Calls:
    """Calls of one listener; remembers in which pass each started."""

    batches: StartBatches = field(default_factory=StartBatches)
    passes: PassCounter = field(default_factory=PassCounter)
    started: dict[str, int] = field(default_factory=dict)

    async def run(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Carry out one call."""
        turn = self.batches.join()
        try:
            await turn
            self.started[name] = self.passes.number
            await work()
        finally:
            self.batches.leave(turn)

    def begin(self, names: Sequence[str], work: Callable[[], Awaitable[object]]) -> list["asyncio.Task[None]"]:
        """Have calls arrive in one pass."""
        return [asyncio.get_running_loop().create_task(self.run(name, work)) for name in names]


async def passes(count: int) -> None:
    """Let the loop take so many passes."""
    for _ in range(count):
        await asyncio.sleep(0)


async def nothing() -> None:
    """Have nothing to do."""


async def test_a_call_that_arrives_alone_starts_in_the_next_pass() -> None:
    """Nothing is waited for when no other call runs."""
    calls = Calls()
    (alone,) = calls.begin(["alone"], nothing)
    await passes(3)
    assert alone.done()


@requirement("PC2-NFR-1a")
async def test_calls_that_arrive_while_others_run_start_together_once_those_have_ended() -> None:
    """They came in different passes, and start in the same one, in the order of their arrival."""
    calls, work = Calls(), asyncio.Event()
    running = calls.begin(["first"], work.wait)
    await passes(3)
    running += calls.begin(["second"], nothing)
    await passes(2)
    running += calls.begin(["third", "fourth"], nothing)
    await passes(QUIET_PASSES - 1)
    assert list(calls.started) == ["first"]
    work.set()
    await asyncio.gather(*running)
    assert list(calls.started) == ["first", "second", "third", "fourth"]
    assert len({calls.started[name] for name in ("second", "third", "fourth")}) == 1


async def test_a_call_that_waits_for_its_sub_agent_holds_up_others_for_a_few_passes() -> None:
    """Else one slow sub-agent would keep every other dispatch from starting."""
    calls, never = Calls(), asyncio.Event()
    (slow,) = calls.begin(["slow"], never.wait)
    await passes(3)
    (other,) = calls.begin(["other"], nothing)
    await passes(LONGEST_PASSES + 2)
    assert other.done()
    slow.cancel()


async def test_a_call_that_has_waited_for_milliseconds_holds_up_no_other() -> None:
    """A sidecar whose sub-agents think for seconds starts each dispatch in the next pass."""
    time = [0.0]
    calls, never = Calls(StartBatches(lambda: time[0])), asyncio.Event()
    (slow,) = calls.begin(["slow"], never.wait)
    await passes(3)
    time[0] = 2 * LONGEST_SECONDS
    (other,) = calls.begin(["other"], nothing)
    await passes(3)
    assert other.done()
    slow.cancel()


async def test_no_more_than_a_batch_starts_in_one_pass() -> None:
    """What is too much for a batch starts with the next one, and nothing is forgotten."""
    calls = Calls()
    names = [f"call {number}" for number in range(2 * MOST + 1)]
    await asyncio.gather(*calls.begin(names, nothing))
    together = [list(calls.started.values()).count(at) for at in sorted(set(calls.started.values()))]
    assert (list(calls.started), together) == (names, [MOST, MOST, 1])


@pytest.mark.parametrize("passed", [1, QUIET_PASSES], ids=["before its batch starts", "in the pass in which it starts"])
async def test_a_client_that_leaves_before_its_call_starts_holds_up_no_other(passed: int) -> None:
    """Its call does nothing, and the next batch does not wait for it."""
    calls, work = Calls(), asyncio.Event()
    (first,) = calls.begin(["first"], work.wait)
    await passes(3)
    gone, stays = calls.begin(["gone", "stays"], nothing)
    await passes(1)
    work.set()
    await passes(passed)
    gone.cancel()
    await asyncio.wait([first, gone, stays])
    (later,) = calls.begin(["later"], nothing)
    await passes(3)
    assert gone.cancelled()
    assert (later.done(), "gone" in calls.started, "stays" in calls.started) == (True, False, True)
