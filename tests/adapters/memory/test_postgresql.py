"""Conversations in PostgreSQL: the suite of every memory, and what replicas add to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from sidecar.adapters.memory_postgresql import PostgresMemory
from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.core.history.isolation import own_turns_of
from sidecar_conformance.episode_memory import EpisodeMemoryBench, EpisodeMemorySuite
from sidecar_conformance.memory_bench import BEGAN, EPISODE, OTHER_EPISODE, REWARDS, SHOP, a_turn
from tests.support.requirement import requirement

pytestmark = pytest.mark.system


class PostgresBench(EpisodeMemoryBench):
    """One database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def make(self) -> PostgresMemory:
        """Make one that waits long for a connection: a hundred turns share two of them, also on a busy machine."""
        return PostgresMemory(self.dsn, limits=ConnectionTimeouts(connect=30.0, pooled=True))


class TestPostgres(EpisodeMemorySuite):
    """What was kept is there for the next process, and for others."""

    @pytest.fixture
    def bench(self, postgres_dsn: str) -> PostgresBench:
        """Make one."""
        return PostgresBench(postgres_dsn)


@asynccontextmanager
async def replicas(dsn: str) -> AsyncIterator[tuple[PostgresMemory, PostgresMemory]]:
    """Have two memories over one database."""
    both = PostgresMemory(dsn), PostgresMemory(dsn)
    try:
        yield both
    finally:
        for each in both:
            await each.close()


@requirement("PC1-D-25", "PC1-D-29")
async def test_replicas_that_start_and_add_at_once_share_one_episode(postgres_dsn: str) -> None:
    """Both make the tables, both add turns of two sub-agents; each turn is there once, and each reads its own."""
    turns = [a_turn(number, SHOP if number % 2 else REWARDS) for number in range(12)]
    async with replicas(postgres_dsn) as (one, other):
        await asyncio.gather(*(memory.append(turn) for turn in turns for memory in (one, other)))
        contents = await one.read(EPISODE, 99)

        assert sorted(each.turn_id for each in contents.turns) == sorted(each.turn_id for each in turns)
        assert (await other.size(EPISODE)).turns == len(turns)
        assert await other.own_turns(EPISODE, SHOP, 99) == own_turns_of(contents.turns, SHOP)


async def test_idle_episodes_go_with_all_their_layers(postgres_dsn: str) -> None:
    """One of two was idle for longer than an hour."""
    memory = PostgresMemory(postgres_dsn, now=lambda: BEGAN + timedelta(minutes=90))
    try:
        await memory.append(a_turn(1, SHOP))
        await memory.append(a_turn(89, SHOP, episode=OTHER_EPISODE))

        assert await memory.forget_idle(timedelta(hours=1)) == 1
        assert (await memory.read(EPISODE, 9)).kept == 0
        assert (await memory.read(OTHER_EPISODE, 9)).kept == 1
    finally:
        await memory.close()


async def test_a_character_that_postgresql_does_not_know_keeps_no_turn_out(postgres_dsn: str) -> None:
    """NUL in what a user said is replaced; otherwise the turn would be tried for ever."""
    memory = PostgresMemory(postgres_dsn)
    try:
        await memory.append(a_turn(1, SHOP, narration="a\x00b"))
        (turn,) = (await memory.read(EPISODE, 9)).turns
        assert turn.narration == "a\ufffdb"
    finally:
        await memory.close()
