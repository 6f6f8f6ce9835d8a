"""Compaction: the sidecar says when, the orchestrator writes the summary, the recent turns stay as they are."""

import asyncio
from datetime import timedelta

import pytest

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.history.v1 import history_pb2
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.history import MemoryThatCanBeAway, a_turn, episode_of, rules, write_summary
from tests.support.requests import failure_of
from tests.support.requirement import requirement

DUE, NOT_DUE, UNKNOWN = pb.COMPACTION_DUE_DUE, pb.COMPACTION_DUE_NOT_DUE, pb.COMPACTION_DUE_UNKNOWN
AFTER_FOUR = {"above_turns": 4, "recent_turns": 2}


async def some_turns(sidecar: SidecarForTests, count: int, first: int = 1) -> None:
    """Have turns `t-1`, `t-2` and so on."""
    for number in range(first, first + count):
        await a_turn(sidecar, turn_id=f"t-{number}", narration=f"answer {number}", user_message=f"question {number}")


@requirement("PC1-FR-11a")
@pytest.mark.parametrize("compaction", [AFTER_FOUR, {"above_tokens": 24, "recent_turns": 2}])
async def test_compaction_is_due_above_the_threshold_and_not_before(compaction: dict[str, int]) -> None:
    """By turns and by tokens (six a turn): four are not over it, and a summary is refused; the fifth is."""
    async with running_sidecar_for_tests(rules=rules(**compaction)) as sidecar:
        await some_turns(sidecar, 4)
        before = await sidecar.bind()
        early = await failure_of(write_summary(sidecar, "t-1"))
        await some_turns(sidecar, 1, first=5)
        after = await sidecar.bind()
        await write_summary(sidecar, "t-3")

    assert (before.compaction_due, after.compaction_due) == (NOT_DUE, DUE)
    assert early.reason == "COMPACTION_NOT_DUE"


async def test_without_a_threshold_nothing_is_ever_due() -> None:
    """The default: no number was chosen."""
    async with running_sidecar_for_tests() as sidecar:
        await some_turns(sidecar, 12)
        assert (await sidecar.bind()).compaction_due == NOT_DUE


@requirement("PC1-FR-11b", "PC1-D-31")
async def test_the_summary_stands_in_for_the_older_turns() -> None:
    """It is there for later turns; the turns under it are not given to a model, and stay kept."""
    async with running_sidecar_for_tests(rules=rules(**AFTER_FOUR)) as sidecar:
        await some_turns(sidecar, 5)
        written = await write_summary(sidecar, "t-3")
        bound = await sidecar.bind()
        await some_turns(sidecar, 1, first=6)
        episode = await episode_of(sidecar)
        whole = await episode_of(sidecar, view=history_pb2.EPISODE_VIEW_FULL)

    assert (written.revision, written.size.turn_count, bound.compaction_due) == (1, 2, NOT_DUE)
    assert (episode.summary.text, episode.summary.up_to_turn_id) == ("They talked about shoes.", "t-3")
    assert [turn.turn_id for turn in episode.turns] == ["t-4", "t-5", "t-6"]
    assert [turn.turn_id for turn in whole.turns] == [f"t-{number}" for number in range(1, 7)]


@requirement("PC1-FR-11c")
async def test_the_most_recent_turns_come_through_unaltered() -> None:
    """Two of five: a summary up to the fourth is refused, one up to the third leaves both byte for byte."""
    async with running_sidecar_for_tests(rules=rules(**AFTER_FOUR)) as sidecar:
        await some_turns(sidecar, 5)
        before = await episode_of(sidecar)
        refused = await failure_of(write_summary(sidecar, "t-4"))
        await write_summary(sidecar, "t-3")
        after = await episode_of(sidecar)

    assert (refused.reason, refused.metadata) == ("RECENT_TURNS_INTACT", {"recent_turns": "2"})
    assert list(after.turns) == list(before.turns)[3:]


@requirement("PC1-D-51")
async def test_both_sides_of_a_summary_can_still_be_read() -> None:
    """A model is given the recent turns whole; an eval reads all turns as they were, and where the summary ends."""
    async with running_sidecar_for_tests(rules=rules(**AFTER_FOUR)) as sidecar:
        await some_turns(sidecar, 5)
        before = await episode_of(sidecar)
        await write_summary(sidecar, "t-3")
        for_a_model = await episode_of(sidecar)
        whole = await episode_of(sidecar, view=history_pb2.EPISODE_VIEW_FULL)

    assert list(for_a_model.turns) == list(before.turns)[3:]
    assert list(whole.turns) == list(before.turns)
    assert [turn.narration for turn in whole.turns] == [f"answer {number}" for number in range(1, 6)]
    assert whole.summary.up_to_turn_id == "t-3"


async def test_a_summary_rolls_on() -> None:
    """The second one replaces the first, and begins after it."""
    async with running_sidecar_for_tests(rules=rules(**AFTER_FOUR)) as sidecar:
        await some_turns(sidecar, 5)
        await write_summary(sidecar, "t-3")
        await some_turns(sidecar, 3, first=6)
        behind = await failure_of(write_summary(sidecar, "t-2", 1))
        second = await write_summary(sidecar, "t-6", 1, text="Shoes, then socks.")
        episode = await episode_of(sidecar)

    assert list(behind.fields) == ["up_to_turn_id"]
    assert (second.revision, episode.summary.revision, episode.summary.text) == (2, 2, "Shoes, then socks.")
    assert [turn.turn_id for turn in episode.turns] == ["t-7", "t-8"]


async def test_of_two_writers_one_is_told_to_read_again() -> None:
    """Two replicas compact the same episode: one summary is written, the other refused; the first may be repeated."""
    async with running_sidecar_for_tests(rules=rules(**AFTER_FOUR)) as sidecar:
        await some_turns(sidecar, 5)
        ended = await asyncio.gather(
            write_summary(sidecar, "t-3", text="by one"),
            write_summary(sidecar, "t-2", text="by the other"),
            return_exceptions=True,
        )
        written = (await episode_of(sidecar)).summary
        repeated = await write_summary(sidecar, written.up_to_turn_id, text=written.text)
        late = await failure_of(write_summary(sidecar, "t-2", text="by a third"))

    assert sorted(isinstance(each, BaseException) for each in ended) == [False, True]
    assert (repeated.revision, late.reason, late.metadata) == (1, "SUMMARY_OUTDATED", {"revision": "1"})


async def test_a_summary_is_narration_only() -> None:
    """No component data gets into the context by this way either; and every wrong field is named."""
    async with running_sidecar_for_tests(rules=rules(**AFTER_FOUR)) as sidecar:
        inline = await failure_of(write_summary(sidecar, "t-1", text='<component type="x">{}</component>'))
        wrong = await failure_of(write_summary(sidecar, "", -1, text=" ", principal="", episode_id=""))

    assert (inline.reason, list(inline.fields)) == ("INLINE_COMPONENT", ["text"])
    assert sorted(wrong.fields) == ["episode_id", "expected_revision", "principal", "text", "up_to_turn_id"]


async def test_a_bind_waits_only_shortly_for_what_it_does_not_know() -> None:
    """A slow memory: unknown, and the turn is bound; repeated, it says the same; the next turn knows."""
    memory = MemoryThatCanBeAway()
    chosen = rules(**AFTER_FOUR) | {"facts_timeout": timedelta(milliseconds=5)}
    async with running_sidecar_for_tests(memory=memory, rules=chosen) as sidecar:
        memory.gate.clear()
        first = await sidecar.bind(turn_id="t-1")
        memory.gate.set()
        again = await sidecar.bind(turn_id="t-1")
        second = await sidecar.bind(turn_id="t-2")

    assert (first.compaction_due, again.compaction_due, second.compaction_due) == (UNKNOWN, UNKNOWN, NOT_DUE)
