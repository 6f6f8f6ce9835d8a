"""Conversations in a SQLite file: the suite of every memory, and what a file adds to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import msgspec
import pytest

from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.adapters.migrations import DatabaseProblem
from sidecar.core.history.records import EpisodeSize, OwnTurn
from sidecar.core.identifiers import Principal
from sidecar_conformance.episode_memory import EpisodeMemoryBench, EpisodeMemorySuite
from sidecar_conformance.memory_bench import BEGAN, EPISODE, OTHER_EPISODE, OTHER_USER, REWARDS, SHOP, a_summary, a_turn
from tests.support.requirement import requirement
from tests.support.sqlite_statements import heard_statements


class SqliteBench(EpisodeMemoryBench):
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> SqliteMemory:
        """Make one; whoever made the one before has closed it."""
        return SqliteMemory(self.path)


class TestSqlite(EpisodeMemorySuite):
    """What was kept is there for the next process."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> SqliteBench:
        """Make one."""
        return SqliteBench(tmp_path / "history.db")


@asynccontextmanager
async def opened(path: Path, keep_idle: timedelta | None = None, now: datetime = BEGAN) -> AsyncIterator[SqliteMemory]:
    """Have a memory at a time."""
    memory = SqliteMemory(path, keep_idle, now=lambda: now)
    try:
        yield memory
    finally:
        await memory.close()


def stored(path: Path, statement: str) -> list[tuple[object, ...]]:
    """Read rows as they are in the file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(statement))
    finally:
        connection.close()


@requirement("PC1-D-25", "PC1-D-29")
async def test_each_layer_is_kept_apart_and_tagged(tmp_path: Path) -> None:
    """Both halves of a tool message stand in rows keyed by `turn_id`; no body has a part of them."""
    path = tmp_path / "history.db"
    async with opened(path) as memory:
        await memory.append(a_turn(1, SHOP, REWARDS))
        await memory.write_summary(EPISODE, a_summary(1, 1))

    assert stored(path, "SELECT turn_id, sub_agent_id, tool_input, component_data FROM history_tool_messages") == [
        ("turn-1", "shop", '{"id": "shop-1"}', '{"a": [1, null]}'),
        ("turn-1", "rewards", '{"id": "rewards-1"}', '{"a": [1, null]}'),
    ]
    assert stored(path, "SELECT user_message, narration FROM history_turns") == [("question 1", "answer 1")]
    assert stored(path, "SELECT sub_agent_id, narration FROM history_answers") == [
        ("shop", "shop said 1"),
        ("rewards", "rewards said 1"),
    ]
    assert stored(path, "SELECT summary_revision, summary_up_to FROM history_episodes") == [(1, "turn-1")]


@requirement("PC1-D-29")
async def test_only_rows_of_the_asking_sub_agent_are_read(tmp_path: Path) -> None:
    """The statement itself is kept to the slot: another one's answer that is not even readable does no harm."""
    path = tmp_path / "history.db"
    async with opened(path) as memory:
        await memory.append(a_turn(1, SHOP, REWARDS))
    connection = apsw.Connection(str(path))
    connection.execute(
        "UPDATE history_tool_messages SET tool_input = CAST(x'ff' AS TEXT) WHERE sub_agent_id = 'rewards'"
    )
    connection.close()
    async with opened(path) as memory:
        (own,) = await memory.own_turns(EPISODE, SHOP, 9)

    assert isinstance(own, OwnTurn)
    assert [each.component_ids for each in own.references] == [("shop-1",)]


async def test_episodes_that_nothing_was_added_to_are_removed_whole(tmp_path: Path) -> None:
    """One hour is the limit: of two episodes the idle one goes with all its layers, the other keeps its old turns."""
    path, hour = tmp_path / "history.db", timedelta(hours=1)
    async with opened(path, None, BEGAN + timedelta(minutes=90)) as memory:
        await memory.append(a_turn(1, SHOP, REWARDS))
        for number in (2, 89):
            await memory.append(a_turn(number, SHOP, episode=OTHER_EPISODE))

        assert await memory.forget_idle(hour) == 1
        assert (await memory.read(EPISODE, 9)).kept == 0
        assert (await memory.read(OTHER_EPISODE, 9)).kept == 2

    counts = "SELECT (SELECT count(*) FROM history_turns), (SELECT count(*) FROM history_answers),"
    assert stored(path, counts + " (SELECT count(*) FROM history_tool_messages)") == [(2, 2, 2)]


async def test_without_a_limit_nothing_is_ever_removed(tmp_path: Path) -> None:
    """The default: years later everything is there."""
    async with opened(tmp_path / "history.db", None, BEGAN + timedelta(days=9999)) as memory:
        await memory.append(a_turn(1, SHOP))
    async with opened(tmp_path / "history.db", None, BEGAN + timedelta(days=9999)) as memory:
        assert (await memory.read(EPISODE, 9)).kept == 1


async def test_the_sweep_begins_with_the_first_use(tmp_path: Path) -> None:
    """A process that starts finds what went idle while none ran."""
    async with opened(tmp_path / "history.db") as memory:
        await memory.append(a_turn(1, SHOP))
    async with (
        opened(tmp_path / "history.db", timedelta(hours=1), BEGAN + timedelta(days=1)) as memory,
        asyncio.timeout(5),
    ):
        while (await memory.read(EPISODE, 9)).kept:
            continue


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Nobody's data is written over."""
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    async with opened(path) as memory:
        with pytest.raises(DatabaseProblem, match="conversations"):
            await memory.open()


async def test_a_closed_memory_opens_nothing_again(tmp_path: Path) -> None:
    """The file is free for the next process."""
    memory = SqliteMemory(tmp_path / "history.db")
    await memory.close()
    with pytest.raises(Exception, match="closed"):
        await memory.append(a_turn(1, SHOP))
    assert not (tmp_path / "history.db").exists()


async def test_the_size_of_a_new_episode_costs_no_read_after_a_restart_either(tmp_path: Path) -> None:
    """What was kept, or summed up, is read; an episode of another user with the same id is new."""
    async with opened(tmp_path / "history.db") as memory:
        await memory.append(a_turn(1))
        await memory.write_summary(OTHER_EPISODE, a_summary(1, 1))
        sizes = [await memory.size(each) for each in (EPISODE, OTHER_EPISODE)]
    new = msgspec.structs.replace(EPISODE, principal=Principal("nobody yet"))
    with heard_statements() as heard:
        async with opened(tmp_path / "history.db") as memory:
            engine = await memory.open()
            while not memory.knows_episodes:
                await engine.read(lambda connection: None)
            heard.clear()
            assert await memory.size(new) == EpisodeSize()
            assert heard == []
            assert [await memory.size(each) for each in (EPISODE, OTHER_EPISODE)] == sizes
            kept = await memory.append(msgspec.structs.replace(a_turn(1), episode=new))
            assert await memory.size(new) == kept != EpisodeSize()


async def test_nothing_of_an_erased_user_is_left_in_the_files(tmp_path: Path) -> None:
    """Every layer and the summary, in the database and its log; another user's are all there."""
    async with opened(tmp_path / "history.db") as memory:
        for number in range(9):
            await memory.append(a_turn(number, SHOP, narration=f"geheim-{number}"))
            await memory.append(a_turn(number, SHOP, episode=OTHER_USER, narration=f"kept-{number}"))
        files = [tmp_path / f"history.db{end}" for end in ("", "-wal", "-shm")]
        assert any(b"geheim-3" in file.read_bytes() for file in files)

        assert await memory.erase(EPISODE.principal) == 1

        found = b"".join(file.read_bytes() for file in files)
        assert b"geheim" not in found
        assert EPISODE.principal.encode() not in found
        assert (await memory.read(EPISODE, 9)).kept == 0
        assert (await memory.read(OTHER_USER, 9)).kept == 9
        assert await memory.erase(EPISODE.principal) == 0
