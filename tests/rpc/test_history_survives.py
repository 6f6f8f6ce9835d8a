"""Conversations on disk: nothing of an ended turn is lost with the process, and nobody reads what is another's."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.history.records import EpisodeKey, EpisodeSize, TurnHistory
from sidecar.core.identifiers import EpisodeId, Principal
from subagents.history.v1 import history_pb2
from subagents.tools.v1 import tools_pb2
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.history import a_turn, episode_of, remembers, rendering_cards, renders
from tests.support.requirement import requirement

FULL = history_pb2.EPISODE_VIEW_FULL


class KilledBeforeCapture(SqliteMemory):
    """A memory that keeps nothing any more, as that of a process that is killed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = asyncio.Event()

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Never come to an end."""
        self.begun.set()
        await asyncio.Event().wait()
        return EpisodeSize()


@asynccontextmanager
async def sidecar_with(memory: SqliteMemory, **fields: Any) -> AsyncIterator[SidecarForTests]:
    """Have a sidecar whose memory is closed behind it."""
    try:
        async with running_sidecar_for_tests(memory=memory, cards=rendering_cards(), **fields) as sidecar:
            yield sidecar
    finally:
        await memory.close()


@requirement("PC1-FR-9a", "PC1-FR-10d")
async def test_a_turn_whose_process_died_before_its_capture_is_there_after_the_restart(tmp_path: Path) -> None:
    """The end is on record and acknowledged, nothing is in the memory: the next process keeps every layer of it."""
    record, path = MemoryStore(), tmp_path / "history.db"
    killed = KilledBeforeCapture(path)
    async with sidecar_with(killed, store=record) as sidecar:
        sidecar.runner.use("shop", renders("Two offers."))
        await a_turn(sidecar, "ask_shop", turn_id="t-1", narration="Here you are.", user_message="What is new?")
        await a_turn(sidecar, turn_id="t-2", narration="You are welcome.", user_message="Thanks!")
        await killed.begun.wait()

    async with sidecar_with(SqliteMemory(path), store=record) as sidecar:
        first, second = (await episode_of(sidecar, view=FULL)).turns

    assert [(turn.user_message, turn.narration) for turn in (first, second)] == [
        ("What is new?", "Here you are."),
        ("Thanks!", "You are welcome."),
    ]
    assert [(answer.sub_agent_id, answer.asked, answer.narration) for answer in first.answers] == [
        ("shop", "what is new?", "Two offers.")
    ]
    (message,) = first.tool_messages
    assert (message.turn_id, message.name, message.position) == ("t-1", "render_offers", 0)
    assert "component-contents" in message.component_data_json
    assert "offer-1" in message.tool_input_json


async def test_what_was_kept_live_and_what_is_found_on_record_are_the_same(tmp_path: Path) -> None:
    """Two memories of one turn: one was there when it ended, the other came later."""
    record = MemoryStore()
    key = EpisodeKey(EpisodeId("episode-1"), Principal("user-1"))
    contents = []
    for name in ("live.db", "later.db"):
        memory = SqliteMemory(tmp_path / name)
        async with sidecar_with(memory, store=record) as sidecar:
            if name == "live.db":
                sidecar.runner.use("shop", renders("Two offers."))
                await a_turn(sidecar, "ask_shop", "ask_rewards", narration="Here.", user_message="Hi")
            await episode_of(sidecar)  # waits for what is on its way
            contents.append(await memory.read(key, 9))

    assert contents[0] == contents[1]
    assert contents[0].kept == 1


class Sessions(RuleBasedStateMachine):
    """Two sub-agents, two sessions, two users, restarts: what each should see is kept beside, in plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory()
        self._record = MemoryStore()
        self._turns = 0
        self._said: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
        self._open: Any = None
        self._sidecar: SidecarForTests | None = None

    @rule(
        slots=st.lists(st.sampled_from(["shop", "rewards"]), min_size=1, max_size=3),
        episode=st.sampled_from(["episode-1", "episode-2"]),
        principal=st.sampled_from(["user-1", "user-2"]),
    )
    def turn(self, slots: list[str], episode: str, principal: str) -> None:
        """Ask them in that order; each sees exactly what it said before in this session."""
        self._loop.run_until_complete(asyncio.wait_for(self._turn(slots, episode, principal), 10))

    @rule()
    def restart(self) -> None:
        """Stop the process; the next turn starts another one on the same files."""
        self._loop.run_until_complete(asyncio.wait_for(self._stop(), 10))

    def teardown(self) -> None:
        """Take everything away."""
        self.restart()
        self._loop.close()
        self._folder.cleanup()

    async def _turn(self, slots: list[str], episode: str, principal: str) -> None:
        sidecar, turn_id = await self._running(), f"t-{self._turns}"
        self._turns += 1
        seen: dict[str, list[tools_pb2.OwnTurn]] = {}
        for slot in ("shop", "rewards"):
            sidecar.runner.use(slot, remembers(sidecar, seen))
        tools = [f"ask_{slot}" for slot in slots]
        await a_turn(sidecar, *tools, turn_id=turn_id, episode_id=episode, principal=principal)
        for slot in dict.fromkeys(slots):
            before = self._said.setdefault((principal, episode, slot), [])
            assert [(own.turn_id, own.narration) for own in seen[slot]] == before
            before += [(turn_id, f"{slot} in {turn_id}")] * slots.count(slot)

    async def _running(self) -> SidecarForTests:
        if self._sidecar is None:
            memory = SqliteMemory(Path(self._folder.name) / "history.db")
            self._open = sidecar_with(memory, store=self._record)
            self._sidecar = await self._open.__aenter__()
        return self._sidecar

    async def _stop(self) -> None:
        if self._sidecar is not None:
            self._sidecar = None
            await self._open.__aexit__(None, None, None)


@requirement("PC1-FR-7a", "PC1-FR-7b")
def test_no_order_of_calls_sessions_users_and_restarts_shows_anybody_what_is_anothers() -> None:
    """Any history over the RPCs, with conversations on disk: each sub-agent reads its own turns, all, and no others."""
    run_state_machine_as_test(
        Sessions,
        settings=settings(
            max_examples=20, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
