"""How large an episode is: remembered for a while, for another replica may have added to it."""

from datetime import timedelta
from typing import Any

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.history.compaction import CompactionDue, CompactionRules
from sidecar.operations.history.episode_facts import CompactionFacts, SizeBounds
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar_conformance.memory_bench import EPISODE, SHOP, a_turn


class Quiet:
    """A recorder that nobody reads."""

    def __getattr__(self, name: str) -> Any:
        """Take any report."""
        return lambda *arguments: None


class SteppedClock:
    """A clock that a test moves."""

    seconds = 0.0

    def monotonic(self) -> float:
        """Return what the test says."""
        return self.seconds


def facts(memory: Any, clock: Any) -> CompactionFacts:
    """Return facts that are fresh for ten seconds; due above two turns."""
    border = BoundedMemory(memory, Quiet(), timedelta(seconds=2))
    bounds = SizeBounds(timedelta(seconds=1), 10, timedelta(seconds=10))
    return CompactionFacts(border, CompactionRules(above_turns=2, recent_turns=1), bounds, clock, Quiet())


async def test_what_another_replica_added_is_seen_when_the_size_is_not_fresh_any_more() -> None:
    """Two turns are known here; a third is kept elsewhere: not seen for ten seconds, then it is."""
    memory, clock = InProcessMemory(), SteppedClock()
    here = facts(memory, clock)
    for number in (1, 2):
        here.sized(EPISODE, await memory.append(a_turn(number, SHOP)))
    await memory.append(a_turn(3, SHOP))

    due = []
    for clock.seconds in (10.0, 10.1):
        due.append(await here.compaction_due(EPISODE))

    assert due == [CompactionDue.NOT_DUE, CompactionDue.DUE]


async def test_a_size_that_cannot_be_read_again_is_not_believed() -> None:
    """The memory is away when it is not fresh any more: unknown, whatever it was before; then it is back."""

    class Away(InProcessMemory):
        away = False

        async def size(self, episode: Any) -> Any:
            if self.away:
                raise ConnectionError
            return await super().size(episode)

    memory, clock = Away(), SteppedClock()
    here = facts(memory, clock)
    due = [await here.compaction_due(EPISODE)]
    memory.away, clock.seconds = True, 11.0
    due.append(await here.compaction_due(EPISODE))
    memory.away = False
    due.append(await here.compaction_due(EPISODE))

    assert due == [CompactionDue.NOT_DUE, CompactionDue.UNKNOWN, CompactionDue.NOT_DUE]
