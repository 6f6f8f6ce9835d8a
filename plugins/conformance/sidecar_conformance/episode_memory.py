"""Cases for episode memories, contract `episode-memory/1`."""
# ruff: noqa: S101  the cases are tests

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import msgspec

from sidecar.core.errors import InlineComponent, SummaryOutdated
from sidecar.core.history.compaction import size_of
from sidecar.core.history.isolation import own_turns_of
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, SubAgentAnswer
from sidecar.core.identifiers import CallId, Slot
from sidecar.policy.memory import EpisodeMemory
from sidecar_conformance.memory_bench import (
    EPISODE,
    OTHER_EPISODE,
    OTHER_USER,
    REWARDS,
    SHOP,
    EpisodeMemoryBench,
    a_summary,
    a_turn,
)
from sidecar_conformance.suite import SOON, Suite, case

INLINE = 'Look: <component type="offer">{"id": 1}</component>'
MANY = 100


class EpisodeMemorySuite(Suite):
    """Subclass it with a fixture `bench` that returns an `EpisodeMemoryBench`."""

    abilities: ClassVar = {"durable": "stored turns are available to the next object that the bench makes"}

    @case()
    async def test_a_turn_is_read_back_as_it_was_kept(self, bench: EpisodeMemoryBench) -> None:
        """Narration, answers and tool messages are equal, byte for byte."""
        async with made(bench) as memory:
            turn = a_turn(1, SHOP, REWARDS)
            await memory.append(turn)
            assert (await read(memory)).turns == (turn,)

    @case()
    async def test_turns_come_oldest_first_and_the_newest_of_them(self, bench: EpisodeMemoryBench) -> None:
        """Of five turns, a read of three returns the newest three, oldest first, and counts all five."""
        async with made(bench) as memory:
            turns = [a_turn(number, SHOP) for number in range(5)]
            for turn in turns:
                await memory.append(turn)
            contents = await read(memory, 3)
            assert contents.turns == tuple(turns[2:])
            assert contents.kept == len(turns)

    @case()
    async def test_a_turn_is_kept_once(self, bench: EpisodeMemoryBench) -> None:
        """A repeated append, perhaps with other content from another replica, changes nothing and returns the size."""
        async with made(bench) as memory:
            first = a_turn(1, SHOP)
            size = await memory.append(first)
            assert await memory.append(a_turn(1, REWARDS, narration="something else")) == size
            assert (await read(memory)).turns == (first,)

    @case()
    async def test_component_data_in_a_body_is_refused(self, bench: EpisodeMemoryBench) -> None:
        """A turn with component data in a narration, of the orchestrator or a sub-agent, is not stored at all."""
        async with made(bench) as memory:
            hidden = SubAgentAnswer(SHOP, CallId("call-0"), "asked", INLINE)
            for turn in (a_turn(1, narration=INLINE), msgspec.structs.replace(a_turn(2), answers=(hidden,))):
                assert isinstance(await failure_of(memory.append(turn)), InlineComponent)
            assert (await read(memory)).turns == ()

    @case()
    async def test_a_sub_agent_reads_its_own_answers_and_no_others(self, bench: EpisodeMemoryBench) -> None:
        """In turns with two sub-agents, each reads only its own answers, with references to its components."""
        async with made(bench) as memory:
            turns = [a_turn(1, SHOP, REWARDS), a_turn(2, REWARDS), a_turn(3, REWARDS, SHOP)]
            for turn in turns:
                await memory.append(turn)
            assert await own(memory, SHOP) == own_turns_of(turns, SHOP)
            assert await own(memory, REWARDS) == own_turns_of(turns, REWARDS)
            assert await own(memory, Slot("support")) == ()

    @case()
    async def test_own_answers_are_of_this_episode(self, bench: EpisodeMemoryBench) -> None:
        """Turns of another episode of the user, or of another user with an equal episode id, are not returned."""
        async with made(bench) as memory:
            await memory.append(a_turn(1, SHOP, episode=OTHER_EPISODE))
            await memory.append(a_turn(2, SHOP, episode=OTHER_USER))
            assert await own(memory, SHOP) == ()

    @case()
    async def test_the_newest_own_answers_come_oldest_first(self, bench: EpisodeMemoryBench) -> None:
        """Of four answers, a read of two returns the newest two; turns of other sub-agents do not count."""
        async with made(bench) as memory:
            for number in range(8):
                await memory.append(a_turn(number, SHOP if number % 2 else REWARDS))
            assert [each.turn_id for each in await own(memory, SHOP, 2)] == ["turn-5", "turn-7"]

    @case()
    async def test_users_do_not_share_an_episode(self, bench: EpisodeMemoryBench) -> None:
        """Two principals with an equal episode id have separate turns, summaries and sizes."""
        async with made(bench) as memory:
            await memory.append(a_turn(1, SHOP))
            await memory.append(a_turn(1, SHOP, episode=OTHER_USER, narration="for somebody else"))
            await memory.write_summary(EPISODE, a_summary(1, 1))
            others = await read(memory, episode=OTHER_USER)
            assert [turn.narration for turn in others.turns] == ["for somebody else"]
            assert others.summary is None
            assert await memory.size(OTHER_USER) == size_of(others)

    @case()
    async def test_an_unknown_episode_is_empty(self, bench: EpisodeMemoryBench) -> None:
        """The first turn of every conversation reads an unknown episode."""
        async with made(bench) as memory:
            assert await read(memory) == EpisodeContents()
            assert await own(memory, SHOP) == ()
            assert await memory.size(EPISODE) == EpisodeSize()

    @case()
    async def test_the_size_is_what_a_model_would_be_given(self, bench: EpisodeMemoryBench) -> None:
        """`append` and `write_summary` return the size, which equals the size of the turns that a read returns."""
        async with made(bench) as memory:
            for number in range(4):
                told = await memory.append(a_turn(number, SHOP))
                assert told == await memory.size(EPISODE) == size_of(await read(memory))
            told = await memory.write_summary(EPISODE, a_summary(1, 1))
            assert told == await memory.size(EPISODE) == size_of(await read(memory))
            assert told.turns == 2  # noqa: PLR2004  turns 2 and 3

    @case()
    async def test_a_summary_alters_no_turn(self, bench: EpisodeMemoryBench) -> None:
        """After a summary, all turns and all answers of sub-agents are still readable."""
        async with made(bench) as memory:
            turns = tuple(a_turn(number, SHOP) for number in range(4))
            for turn in turns:
                await memory.append(turn)
            await memory.write_summary(EPISODE, a_summary(1, 2))
            contents = await read(memory)
            assert (contents.summary, contents.turns) == (a_summary(1, 2), turns)
            assert await own(memory, SHOP) == own_turns_of(turns, SHOP)

    @case()
    async def test_only_the_next_summary_is_written(self, bench: EpisodeMemoryBench) -> None:
        """A repeated revision, and one that skips a number, are refused; the present summary stays."""
        async with made(bench) as memory:
            await memory.append(a_turn(1, SHOP))
            assert isinstance(await failure_of(memory.write_summary(EPISODE, a_summary(2, 1))), SummaryOutdated)
            await memory.write_summary(EPISODE, a_summary(1, 1))
            for revision in (1, 3):
                late = a_summary(revision, 1, "another")
                assert isinstance(await failure_of(memory.write_summary(EPISODE, late)), SummaryOutdated)
            assert (await read(memory)).summary == a_summary(1, 1)
            await memory.write_summary(EPISODE, a_summary(2, 1, "the next"))
            assert (await read(memory)).summary == a_summary(2, 1, "the next")

    @case()
    async def test_of_summaries_at_the_same_time_one_is_written(self, bench: EpisodeMemoryBench) -> None:
        """Of ten concurrent writes with one revision, one succeeds and nine raise `SummaryOutdated`."""
        async with made(bench) as memory:
            await memory.append(a_turn(1, SHOP))
            writes = [memory.write_summary(EPISODE, a_summary(1, 1, f"by {writer}")) for writer in range(10)]
            ended = await asyncio.gather(*writes, return_exceptions=True)
            assert sum(isinstance(each, EpisodeSize) for each in ended) == 1
            assert sum(isinstance(each, SummaryOutdated) for each in ended) == len(writes) - 1

    @case()
    async def test_turns_at_the_same_time_are_all_kept(self, bench: EpisodeMemoryBench) -> None:
        """Many concurrent appends to one episode are all stored."""
        async with made(bench) as memory:
            await asyncio.gather(*(memory.append(a_turn(number, SHOP)) for number in range(MANY)))
            contents = await read(memory, MANY)
            assert sorted(turn.turn_id for turn in contents.turns) == sorted(f"turn-{each}" for each in range(MANY))

    @case()
    async def test_close_may_be_called_twice(self, bench: EpisodeMemoryBench) -> None:
        """A failed start may close what the shutdown closes again."""
        async with made(bench) as memory:
            await asyncio.wait_for(memory.close(), SOON)

    @case(needs="durable")
    async def test_what_was_kept_is_there_for_the_next(self, bench: EpisodeMemoryBench) -> None:
        """After a restart, turns, summary and size are available."""
        async with bench.running():
            turn, summary = a_turn(1, SHOP), a_summary(1, 1)
            async with opened(bench) as memory:
                await memory.append(turn)
                size = await memory.write_summary(EPISODE, summary)
            async with opened(bench) as memory:
                assert await read(memory) == EpisodeContents(summary, (turn,), 1)
                assert await memory.size(EPISODE) == size


@asynccontextmanager
async def opened(bench: EpisodeMemoryBench) -> AsyncIterator[EpisodeMemory]:
    """Yield a new memory, and close it."""
    memory = bench.make()
    try:
        yield memory
    finally:
        await asyncio.wait_for(memory.close(), SOON)


@asynccontextmanager
async def made(bench: EpisodeMemoryBench) -> AsyncIterator[EpisodeMemory]:
    """Start the storage, yield a memory on it, and close the memory."""
    async with bench.running(), opened(bench) as memory:
        yield memory


async def read(memory: EpisodeMemory, most: int = 50, episode: EpisodeKey = EPISODE) -> EpisodeContents:
    """Return the contents of an episode; fail after `SOON` seconds."""
    return await asyncio.wait_for(memory.read(episode, most), SOON)


async def own(memory: EpisodeMemory, slot: Slot, most: int = 50) -> Sequence[OwnTurn]:
    """Return the own turns of a slot in `EPISODE`; fail after `SOON` seconds."""
    return tuple(await asyncio.wait_for(memory.own_turns(EPISODE, slot, most), SOON))


async def failure_of(work: object) -> Exception | None:
    """Await an operation and return its exception; None if it succeeded."""
    try:
        await asyncio.wait_for(work, SOON)  # type: ignore[arg-type]  # whatever an adapter returns
    except Exception as error:  # noqa: BLE001  which one is the caller's question
        return error
    return None


__all__ = ["EpisodeMemoryBench", "EpisodeMemorySuite"]
