"""Conversations in the whole, built in this process: an episode memory by plugin, its settings, its end."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.composition.parts import Overrides
from sidecar.composition.running import Sidecar, running_sidecar
from sidecar.composition.stopping import drain
from sidecar.core.history.records import EpisodeKey, EpisodeSize, TurnHistory
from sidecar.core.identifiers import EpisodeId, Principal
from sidecar.observability import names
from sidecar.observability.metrics import Counter
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.problems import PluginProblem
from sidecar.policy.specs import EpisodeMemorySpec
from sidecar.settings import Settings, SettingsProblem, read_settings
from subagents_client import CompactionDue, SidecarClient, TurnRequest
from tests.support.requirement import requirement
from tests.support.sidecar_process import place, settings_file

EPISODE = EpisodeKey(EpisodeId("episode-1"), Principal("user-1"))
MINE = '[policy.default]\nmemory = "mine"\n[history]\ncompact_above_turns = 2\nrecent_turns = 1\ntimeout = "200ms"\n'


class Mine(InProcessMemory):
    """An episode memory that is slow when told so, and the plugin that offers it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.go_on.set()

    @hookimpl
    def sidecar_episode_memories(self) -> Sequence[EpisodeMemorySpec]:
        """Offer itself."""
        return [EpisodeMemorySpec(name="mine", contract="episode-memory/1", summary="a test's", factory=self._made)]

    def _made(self, settings: Mapping[str, Any]) -> "Mine":
        return self

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep a turn once that is allowed."""
        self.begun.set()
        await self.go_on.wait()
        return await super().append(turn)

    async def close(self) -> None:
        """Take note."""
        self.closed.set()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


def settings(folder: Path, more: str = MINE) -> Settings:
    """Return settings whose every address lies in `folder`."""
    quick = {"SIDECAR__SERVER__LAME_DUCK": "1ms"}
    return read_settings(settings_file(folder, more), quick)


def client_of(sidecar: Sidecar) -> SidecarClient:
    """Connect."""
    return SidecarClient.connect(f"unix:{sidecar.settings.server.dispatch_socket}", boot_secret=sidecar.boot_secret)


async def a_turn(client: SidecarClient, said: str) -> CompactionDue:
    """Have a turn without a dispatch; return whether compaction was due."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
    await turn.end(said, user_message="Hi")
    return turn.surface.compaction_due


async def test_a_plugin_keeps_the_conversations_and_settings_say_when_to_compact(folder: Path) -> None:
    """Four turns through the SDK, a summary, a fifth; the memory is closed at the end."""
    mine = Mine()
    running = running_sidecar(settings(folder), replaced=Overrides(plugins=[mine]))
    async with running as sidecar, client_of(sidecar) as client:
        due = [await a_turn(client, f"answer {number}") for number in range(4)]
        episode = await client.read_episode("episode-1", "user-1")
        covered = episode.turns[2].turn_id
        await client.write_summary("episode-1", "user-1", "They met.", up_to_turn_id=covered, expected_revision=0)
        due.append(await a_turn(client, "answer 4"))
        after = await client.read_episode("episode-1", "user-1")

    assert due == [*[CompactionDue.NOT_DUE] * 3, CompactionDue.DUE, CompactionDue.NOT_DUE]
    assert [message.text for message in after.context_messages()] == ["They met.", "Hi", "answer 3", "Hi", "answer 4"]
    assert (await mine.read(EPISODE, 9)).kept == 5
    assert mine.closed.is_set()


async def test_what_is_on_its_way_is_kept_before_the_process_ends(folder: Path) -> None:
    """The turn has ended, the memory is slow: the drain waits for it."""
    mine = Mine()
    async with running_sidecar(settings(folder), replaced=Overrides(plugins=[mine])) as sidecar:
        async with client_of(sidecar) as client:
            mine.go_on.clear()
            await a_turn(client, "Hello!")
            await mine.begun.wait()
        draining = asyncio.create_task(drain(sidecar, asyncio.Event()))
        asyncio.get_running_loop().call_soon(mine.go_on.set)
        await draining
        assert [turn.narration for turn in (await mine.read(EPISODE, 9)).turns] == ["Hello!"]


@requirement("PC1-FR-9a")
async def test_what_a_hanging_memory_did_not_take_is_kept_by_the_next_process(folder: Path) -> None:
    """It never goes on: the drain ends all the same, and what is left is counted; the next start finds it on record."""
    mine = Mine()
    async with running_sidecar(settings(folder), replaced=Overrides(plugins=[mine])) as sidecar:
        left = next(metric for metric in sidecar.metrics if metric.name == names.ANOMALIES)
        async with client_of(sidecar) as client:
            mine.go_on.clear()
            await a_turn(client, "Hello!")
            await a_turn(client, "Hello again!")
        async with asyncio.timeout(5):
            await drain(sidecar, asyncio.Event())
        assert (await mine.read(EPISODE, 9)).kept == 0
        assert isinstance(left, Counter)
        assert (left.series[("history_lost",)], left.series[("history_deferred",)]) == (0, 2)

    mine = Mine()
    again = running_sidecar(settings(folder), replaced=Overrides(plugins=[mine]))
    async with again as sidecar, client_of(sidecar) as client:
        turns = (await client.read_episode("episode-1", "user-1")).turns
    assert [turn.narration for turn in turns] == ["Hello!", "Hello again!"]


async def test_without_a_word_about_it_conversations_survive_the_process(folder: Path) -> None:
    """The default: a record in a file, and conversations in a file of their own beside it."""
    plain = read_settings(settings_file(folder), {})
    async with running_sidecar(plain) as sidecar, client_of(sidecar) as client:
        await a_turn(client, "Hello!")
    async with running_sidecar(plain) as sidecar, client_of(sidecar) as client:
        turns = (await client.read_episode("episode-1", "user-1")).turns

    assert [turn.narration for turn in turns] == ["Hello!"]
    assert (folder / "record" / "conversations.sqlite").exists()


async def test_a_file_that_another_process_holds_stops_the_start(folder: Path) -> None:
    """Before anybody is served, and the message names the file."""
    plain = read_settings(settings_file(folder), {})
    holding = SqliteMemory(folder / "record" / "conversations.sqlite")
    await holding.open()
    try:
        with pytest.raises(SettingsProblem, match=r"conversations\.sqlite is open in another process"):
            async with running_sidecar(plain):
                pytest.fail("it must not start")
    finally:
        await holding.close()


async def test_a_memory_that_nobody_offers_stops_the_start(folder: Path) -> None:
    """The message says which setting, and what may be chosen."""
    with pytest.raises(PluginProblem, match=r"episode-memory named `mine`.*\n.*policy.default.memory.*\n.*in_process"):
        async with running_sidecar(settings(folder)):
            pytest.fail("it must not start")
