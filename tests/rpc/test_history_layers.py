"""What is kept of a conversation, in layers, and what of it a model is given."""

import asyncio
from typing import Any

import pytest

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import EpisodeId, Principal, TurnId
from sidecar.operations.history.capture import history_on_record
from sidecar.operations.rules import HistoryRules
from subagents.history.v1 import history_pb2
from tests.support.fake_runner import answers, raises
from tests.support.harness import running_sidecar_for_tests
from tests.support.history import (
    DATA,
    TOOL_INPUT,
    MemoryThatCanBeAway,
    a_turn,
    episode_of,
    rendering_cards,
    renders,
    rules,
    write_summary,
)
from tests.support.requests import failure_of
from tests.support.requirement import requirement

FULL = history_pb2.EPISODE_VIEW_FULL


@requirement("PC1-FR-10e", "PC1-D-26")
async def test_an_episode_is_read_back_as_user_messages_and_narration() -> None:
    """Two turns, one with a sub-agent; its narration is tagged with its slot."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("Two offers fit."))
        await a_turn(sidecar, turn_id="t-1", narration="Hello!", user_message="Hi")
        await a_turn(sidecar, "ask_shop", turn_id="t-2", narration="There are two.", user_message="Any offers?")
        episode = await episode_of(sidecar)

    assert [(turn.turn_id, turn.user_message, turn.narration) for turn in episode.turns] == [
        ("t-1", "Hi", "Hello!"),
        ("t-2", "Any offers?", "There are two."),
    ]
    (answer,) = episode.turns[1].answers
    assert (answer.sub_agent_id, answer.call_id, answer.asked, answer.narration) == (
        "shop",
        "call-1",
        "what is new?",
        "Two offers fit.",
    )
    assert (episode.turns_left_out, episode.size.turn_count, episode.HasField("summary")) == (0, 2, False)


@requirement("PC1-FR-10f", "PC1-D-28")
async def test_a_model_is_given_references_and_no_tool_message() -> None:
    """Ids and positions of the components; titles, tags and contents are not in the message at all."""
    async with running_sidecar_for_tests(cards=rendering_cards()) as sidecar:
        sidecar.runner.use("shop", renders("Two offers."))
        sidecar.runner.use("rewards", renders("Some points."))
        await a_turn(sidecar, "ask_shop", "ask_rewards", narration="Look at the second one.")
        episode = await episode_of(sidecar)

    references = [
        (each.sub_agent_id, each.name, each.position, list(each.component_ids)) for each in episode.turns[0].references
    ]
    assert references == [
        ("shop", "render_offers", 0, ["offer-1", "offer-2"]),
        ("rewards", "render_offers", 1, ["offer-1", "offer-2"]),
    ]
    assert list(episode.turns[0].tool_messages) == []
    assert not [word for word in ("Two for one", "t-9", "component-contents") if word in str(episode)]


@requirement("PC1-FR-10b", "PC1-FR-10c", "PC1-D-63")
async def test_components_are_kept_as_tool_messages_of_their_turn() -> None:
    """Input and contents, byte for byte, tagged with turn, slot and call; for replay and audit."""
    async with running_sidecar_for_tests(cards=rendering_cards()) as sidecar:
        sidecar.runner.use("shop", renders("Two offers."))
        await a_turn(sidecar, "ask_shop", turn_id="t-1")
        episode = await episode_of(sidecar, view=FULL)

    (kept,) = episode.turns[0].tool_messages
    assert (kept.turn_id, kept.sub_agent_id, kept.call_id, kept.position) == ("t-1", "shop", "call-1", 0)
    assert (kept.name, kept.tool_input_json, kept.component_data_json) == ("render_offers", TOOL_INPUT, DATA)


@requirement("PC1-FR-10a")
@pytest.mark.parametrize(
    "narration",
    ['Look: <component type="offer">{"id": 1}</component>', '```json\n{"id": 1}\n```', ' {"cards": [1]}\n', "[1]"],
)
async def test_a_narration_with_an_inline_component_is_refused(narration: str) -> None:
    """The turn is not ended by it and goes on; without the component it ends, and that is what is kept."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        refused = await failure_of(sidecar.end(bound, narration=narration))
        await sidecar.dispatch(bound, "ask_shop")
        await sidecar.end(bound, narration="Look at this.")
        episode = await episode_of(sidecar)

    assert (refused.reason, list(refused.fields)) == ("INLINE_COMPONENT", ["narration"])
    assert [(turn.narration, len(turn.answers)) for turn in episode.turns] == [("Look at this.", 1)]


@requirement("PC1-D-12")
async def test_a_turn_ends_without_waiting_for_its_history() -> None:
    """The memory hangs: the answer to EndTurn comes. A read of this episode waits for the turn, one of another not."""
    memory = MemoryThatCanBeAway()
    async with running_sidecar_for_tests(memory=memory) as sidecar:
        bound = await sidecar.bind(turn_id="t-1")
        memory.keeping.clear()
        await sidecar.end(bound, narration="Hello!")
        reading = asyncio.create_task(episode_of(sidecar))
        await asyncio.create_task(episode_of(sidecar, episode_id="episode-2"))  # begun after the other
        memory.keeping.set()

        assert [turn.turn_id for turn in (await reading).turns] == ["t-1"]


async def test_turns_that_a_memory_refused_are_kept_when_it_is_back() -> None:
    """It fails while two turns end: both end as they should, and are read afterwards in their order."""
    memory = MemoryThatCanBeAway()
    async with running_sidecar_for_tests(memory=memory) as sidecar:
        memory.away = True
        for turn_id in ("t-1", "t-2"):
            await a_turn(sidecar, "ask_shop", turn_id=turn_id, narration="Hello!")
        memory.away = False
        await sidecar.operations.history.captures.idle()

        assert [turn.turn_id for turn in (await episode_of(sidecar)).turns] == ["t-1", "t-2"]
        assert "history_lost" not in {kind for kind, _ in sidecar.recorder.of("anomaly")}


async def test_turns_that_found_the_queue_full_are_looked_for_on_record() -> None:
    """Room for one while the memory hangs: of four turns all are there in the end, and their delay was counted."""
    memory = MemoryThatCanBeAway()
    async with running_sidecar_for_tests(memory=memory, rules={"history": HistoryRules(queue=1)}) as sidecar:
        memory.keeping.clear()
        for turn_id in ("t-1", "t-2", "t-3", "t-4"):
            await a_turn(sidecar, "ask_shop", turn_id=turn_id, narration=f"This was {turn_id}.")
        missed = [kind for kind, _ in sidecar.recorder.of("anomaly") if kind.startswith("history")]
        memory.keeping.set()
        found: list[str] = []
        while len(found) < 4:
            found = [turn.narration for turn in (await episode_of(sidecar)).turns]

        assert sorted(found) == [f"This was t-{number}." for number in (1, 2, 3, 4)]
        assert set(missed) == {"history_deferred"}


async def test_a_turn_that_waits_and_is_found_on_record_is_one_turn() -> None:
    """The memory hangs, and the look at the record finds the turn that waits: what is left at the stop is one turn."""
    memory = MemoryThatCanBeAway()
    async with running_sidecar_for_tests(memory=memory) as sidecar:
        memory.keeping.clear()
        await a_turn(sidecar, "ask_shop", turn_id="t-1", narration="Hello!")
        stored = await sidecar.store.turn(TurnId("t-1"))
        found = history_on_record(stored) if stored else None
        assert found is not None
        captures = sidecar.operations.history.captures
        again = asyncio.create_task(captures.again(found))
        await asyncio.sleep(0)  # its first step: it has looked for the turn
        captures.give_up()
        await again

        left = [said for kind, said in sidecar.recorder.of("anomaly") if kind.startswith("history")]
        assert [said.split(":")[0] for said in left] == ["t-1"]


async def test_an_end_that_is_repeated_is_kept_once() -> None:
    """A lost answer: the same turn, once in the episode."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        for _ in range(2):
            await sidecar.end(bound, narration="Hello!")

        assert (await episode_of(sidecar)).size.turn_count == 1


async def test_a_failed_sub_agent_leaves_nothing_of_its_own() -> None:
    """Nothing it said before it raised is an answer."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", raises(RuntimeError("broken"), after="half of"))
        await a_turn(sidecar, "ask_shop", "ask_rewards")
        episode = await episode_of(sidecar)

    assert [answer.sub_agent_id for answer in episode.turns[0].answers] == ["rewards"]


async def test_an_episode_is_its_users() -> None:
    """The same episode id for another principal is empty, and so is one that never was."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, narration="Hello!")
        others = await episode_of(sidecar, principal="user-2")
        unknown = await episode_of(sidecar, episode_id="never")

    assert others == unknown == history_pb2.ReadEpisodeResponse(size=history_pb2.EpisodeSize())


async def test_the_newest_turns_come_and_what_is_left_out_is_counted() -> None:
    """By number, and by the operator's room for one answer."""
    async with running_sidecar_for_tests(rules={"history": HistoryRules(answer_bytes=2_000)}) as sidecar:
        for number in range(5):
            await a_turn(sidecar, turn_id=f"t-{number}", narration="x" * 700)
        by_number = await episode_of(sidecar, max_turns=1)
        by_room = await episode_of(sidecar)

    assert ([turn.turn_id for turn in by_number.turns], by_number.turns_left_out) == (["t-4"], 4)
    assert ([turn.turn_id for turn in by_room.turns], by_room.turns_left_out) == (["t-3", "t-4"], 3)


async def test_every_wrong_field_is_named() -> None:
    """All at once."""
    async with running_sidecar_for_tests() as sidecar:
        refused = await failure_of(episode_of(sidecar, episode_id="", principal="", view=9, max_turns=1001))

    assert sorted(refused.fields) == ["episode_id", "max_turns", "principal", "view"]


class Elsewhere:
    """An episode memory of somebody else: keeps to the port, and notes what it is asked."""

    def __init__(self) -> None:
        """Begin empty."""
        self._inner = InProcessMemory()
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        """Note the method and do it."""
        self.asked.append(name)
        return getattr(self._inner, name)


@requirement("PC1-FR-10g")
async def test_history_is_kept_and_read_through_the_port_alone() -> None:
    """Another memory behind the same port: what is appended there is what is read back, by three methods."""
    memory = Elsewhere()
    async with running_sidecar_for_tests(memory=memory) as sidecar:
        await a_turn(sidecar, "ask_shop", narration="Hello!")
        episode = await episode_of(sidecar)

    assert [turn.narration for turn in episode.turns] == ["Hello!"]
    assert memory.asked == ["size", "append", "read", "size"]


@requirement("PC1-D-25")
async def test_all_of_a_turn_stays_in_store_also_once_a_summary_stands_for_it() -> None:
    """Three turns, a summary over two: every tool message is there under its turn, with input and data as they came."""
    memory = InProcessMemory()
    async with running_sidecar_for_tests(
        cards=rendering_cards(), memory=memory, rules=rules(above_turns=1, recent_turns=1)
    ) as sidecar:
        sidecar.runner.use("shop", renders("Two offers."))
        for number in range(1, 4):
            await a_turn(sidecar, "ask_shop", turn_id=f"t-{number}", narration=f"Look {number}.")
        await write_summary(sidecar, "t-2")
        kept = await memory.read(EpisodeKey(EpisodeId("episode-1"), Principal("user-1")), 10)

    assert [turn.turn_id for turn in kept.turns] == ["t-1", "t-2", "t-3"]
    halves = [(each.tool_input_json, each.component_data_json) for turn in kept.turns for each in turn.tool_messages]
    assert halves == [(TOOL_INPUT, DATA)] * 3
