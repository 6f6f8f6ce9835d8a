"""An export is read into a memory once, in order, from wherever the last run stopped."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.errors import MemoryUnavailable
from sidecar.core.history.legacy_records import ImportProblem
from sidecar.core.history.records import EpisodeKey, EpisodeSize, TurnHistory
from sidecar.core.identifiers import EpisodeId, Principal, Slot, TurnId
from sidecar.operations.history.backfill import BackfillHistory, BackfillReport
from sidecar.operations.history.memory_boundary import BoundedMemory
from tests.support.requirement import requirement

BEGAN = datetime(2025, 5, 1, 10, tzinfo=UTC)
EPISODE = EpisodeKey(EpisodeId("e-1"), Principal("user-1"))
BROKEN = b"{this is no JSON\n"


class Quiet:
    """A recorder that nobody reads."""

    def __getattr__(self, name: str) -> Any:
        """Take any report."""
        return lambda *arguments: None


def turn(number: int, text: str = "Hello.", episode: str = "e-1") -> list[bytes]:
    """Return the two lines of a turn, a minute after the turn before."""
    both = [("user", "Hi"), ("assistant", text)]
    return [
        json.dumps(
            {
                "turn_id": f"t-{number}",
                "episode_id": episode,
                "principal": "user-1",
                "at": (BEGAN + timedelta(minutes=number)).isoformat(),
                "role": role,
                "text_content": said,
                "sub_agent_id": "shop" if role == "assistant" else None,
            }
        ).encode()
        for role, said in both
    ]


async def backfilled(memory: InProcessMemory, lines: list[bytes], *, dry_run: bool = False) -> BackfillReport:
    """Run once."""
    border = BoundedMemory(memory, Quiet(), timedelta(seconds=2))
    return await BackfillHistory(border, {}, dry_run=dry_run)(lines)


async def kept(memory: InProcessMemory) -> list[str]:
    """Return the ids of the turns of the episode, oldest first."""
    return [each.turn_id for each in (await memory.read(EPISODE, 99)).turns]


class StopsAfter(InProcessMemory):
    """A memory that goes away."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.left = turns

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep a turn, while it is there."""
        if self.left == 0:
            raise ConnectionError
        self.left -= 1
        return await super().append(turn)


@requirement("PC1-D-30")
async def test_a_run_that_was_stopped_goes_on_where_it_stopped() -> None:
    """The memory goes away after two turns; the same export again adds the other two, and a third run nothing."""
    memory = StopsAfter(2)
    lines = [each for number in range(4) for each in turn(number)]
    with pytest.raises(MemoryUnavailable):
        await backfilled(memory, lines)
    memory.left = 9

    second, third = await backfilled(memory, lines), await backfilled(memory, lines)

    assert (second.turns, second.already, second.tagged) == (2, 2, 2)
    assert (third.turns, third.already, third.lines) == (0, 4, 8)
    assert await kept(memory) == ["t-0", "t-1", "t-2", "t-3"]
    assert len(await memory.own_turns(EPISODE, Slot("shop"), 9)) == 4


async def test_a_dry_run_says_the_same_and_keeps_nothing() -> None:
    """Counts and findings are those of the run that follows."""
    memory = InProcessMemory()
    lines = [*turn(1), *turn(2, 'So <component type="x">{bad</component>'), BROKEN, *turn(3), *turn(4)]

    dry = await backfilled(memory, lines, dry_run=True)
    assert await kept(memory) == []
    real = await backfilled(memory, lines)

    assert dry.dry_run
    dry.dry_run = False
    assert dry == real


async def test_a_turn_that_may_be_incomplete_is_not_kept() -> None:
    """An unreadable line stands between two turns, and may be a part of either: kept once, they could not be mended."""
    memory = InProcessMemory()

    report = await backfilled(memory, [*turn(1), *turn(2), BROKEN, *turn(3), *turn(4)])

    assert await kept(memory) == ["t-1", "t-4"]
    assert report.left_out == 2
    assert report.troubles == {ImportProblem.UNREADABLE: 1, ImportProblem.TURN_BROKEN: 2}
    assert [each.line for each in report.findings] == [5, 3, 6]


async def test_lines_of_a_turn_that_stand_apart_are_reported() -> None:
    """What was kept of the turn stays; what comes later is not silently dropped."""
    memory = InProcessMemory()

    report = await backfilled(memory, [*turn(1)[:1], *turn(2, episode="e-2"), *turn(1)[1:]])

    assert (report.turns, report.left_out) == (2, 1)
    assert report.troubles == {ImportProblem.TURN_AGAIN: 1}


async def test_an_episode_that_has_gone_on_keeps_its_order() -> None:
    """A newer turn was kept by the sidecar meanwhile: the older one would come after it, and is reported instead."""
    memory = InProcessMemory()
    await memory.append(TurnHistory(EPISODE, TurnId("live"), BEGAN + timedelta(days=1), narration="Now."))

    report = await backfilled(memory, turn(1))

    assert await kept(memory) == ["live"]
    assert report.troubles == {ImportProblem.OUT_OF_ORDER: 1}
