"""The rules of history: layers, isolation, compaction. No clock, no socket."""

from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import (
    CompactionNotDue,
    InvalidRequest,
    RecentTurnsIntact,
    SubagentsError,
    SummaryOutdated,
)
from sidecar.core.history.compaction import (
    CompactionDue,
    CompactionRules,
    NewSummary,
    after_summary,
    check_summary,
    due_of,
    is_due,
    size_after,
    size_of,
)
from sidecar.core.history.isolation import only_own, own_turns_of
from sidecar.core.history.message_layers import newest_that_fit, references_of
from sidecar.core.history.records import (
    EpisodeContents,
    EpisodeKey,
    EpisodeSize,
    SubAgentAnswer,
    Summary,
    ToolMessage,
    TurnHistory,
)
from sidecar.core.identifiers import CallId, EpisodeId, Principal, Slot, TurnId
from sidecar.settings.history import HistorySettings
from tests.support.requirement import requirement

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
EPISODE = EpisodeKey(EpisodeId("e"), Principal("u"))
SLOTS = ("shop", "rewards", "support")


def a_turn(number: int, slots: tuple[str, ...] = (), narration: str = "four") -> TurnHistory:
    """Return a turn in which `slots` answered, each with one component."""
    turn_id = TurnId(f"t-{number}")
    called = [(place, Slot(slot), CallId(f"c-{place}")) for place, slot in enumerate(slots)]
    return TurnHistory(
        EPISODE,
        turn_id,
        BEGAN,
        narration=narration,
        answers=tuple(SubAgentAnswer(slot, call, f"asked {slot}", f"said by {slot}") for _, slot, call in called),
        tool_messages=tuple(
            ToolMessage(turn_id, slot, call, place, "render_x", f'{{"id": "of {slot}"}}', "{}")
            for place, slot, call in called
        ),
    )


turns = st.lists(st.lists(st.sampled_from(SLOTS), max_size=4).map(tuple), max_size=8).map(
    lambda calls: [a_turn(number, slots) for number, slots in enumerate(calls)]
)
rules = st.builds(
    CompactionRules,
    above_tokens=st.none() | st.integers(1, 30),
    above_turns=st.none() | st.integers(1, 12),
    recent_turns=st.integers(1, 6),
)


@given(turns, st.sampled_from(SLOTS))
def test_own_turns_are_all_of_ones_own_and_nothing_else(history: list[TurnHistory], slot: str) -> None:
    """As many as were answered, in order, with no word and no component of another."""
    own = own_turns_of(history, Slot(slot))

    assert [each.turn_id for each in own] == [
        turn.turn_id for turn in history for answer in turn.answers if answer.sub_agent_id == slot
    ]
    text = msgspec.json.encode(own).decode()
    assert not [other for other in SLOTS if other != slot and other in text]
    assert all(len(each.references) == 1 for each in own)


@given(turns, st.sampled_from(SLOTS))
def test_what_belongs_to_others_is_found_whatever_a_memory_gives(history: list[TurnHistory], slot: str) -> None:
    """All answers of everybody go in; one's own come out, without those of the current turn, the others are counted."""
    everybody = [own for each in SLOTS for own in own_turns_of(history, Slot(each))]
    own, foreign = only_own(everybody, Slot(slot), TurnId("t-0"))

    assert own == tuple(each for each in own_turns_of(history, Slot(slot)) if each.turn_id != "t-0")
    assert foreign == len(everybody) - len(own_turns_of(history, Slot(slot)))


def test_an_own_turn_with_a_component_of_another_is_foreign() -> None:
    """The tag on the entry is right, the one on its reference is not."""
    (own,) = own_turns_of([a_turn(1, ("shop",))], Slot("shop"))
    (others,) = own_turns_of([a_turn(1, ("rewards",))], Slot("rewards"))
    spoiled = msgspec.structs.replace(own, references=others.references)

    assert only_own([spoiled], Slot("shop"), TurnId("now")) == ((), 1)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 12), st.integers(0, 40))
def test_the_newest_that_fit_are_taken_without_a_gap(weights: list[int], most: int, room: int) -> None:
    """As many as possible: one more would be too many, or too heavy."""
    taken = newest_that_fit(weights, most, room, lambda weight: weight)

    assert list(taken) == weights[len(weights) - len(taken) :]
    assert len(taken) <= most
    assert sum(taken) <= room
    if len(taken) < min(most, len(weights)):
        assert sum(taken) + weights[-len(taken) - 1] > room


@pytest.mark.parametrize(
    ("tool_input", "ids"),
    [
        ('{"ids": ["a", 2, true, null]}', ("a", "2")),
        ('{"items": [{"id": "a", "title": "A"}, {"component_id": "b"}, {"id": "a"}]}', ("a", "b")),
        ('{"user_id": "u-1", "tags": ["x"], "title": "id"}', ()),
        ('[[[[[[[{"id": "too deep"}]]]]]]]', ()),
        ("not JSON", ()),
    ],
)
def test_a_reference_names_ids_and_nothing_else(tool_input: str, ids: tuple[str, ...]) -> None:
    """Of members called so, each once; titles, tags and ids of users stay where they are."""
    message = ToolMessage(TurnId("t"), Slot("shop"), CallId("c"), 0, "render_x", tool_input, "{}")

    assert references_of([message])[0].component_ids == ids


def test_a_reference_is_compact_whatever_it_is_given() -> None:
    """Many and long ids are cut."""
    many = msgspec.json.encode({"ids": [f"{number}-{'x' * 500}" for number in range(100)]}).decode()
    (reference,) = references_of([ToolMessage(TurnId("t"), Slot("shop"), CallId("c"), 0, "render_x", many, "{}")])

    assert (len(reference.component_ids), {len(each) for each in reference.component_ids}) == (32, {128})


@requirement("PC1-NFR-5")
def test_the_thresholds_are_settings_without_a_number_until_somebody_gives_one() -> None:
    """Unset, nothing is due however long the episode; set, it is; both are read from the settings."""
    huge = EpisodeSize(10_000, 10_000_000)
    chosen = HistorySettings(compact_above_turns=8, compact_above_tokens=4_000)

    assert (HistorySettings().compact_above_tokens, HistorySettings().compact_above_turns) == (None, None)
    assert due_of(huge, CompactionRules()) is CompactionDue.NOT_DUE
    assert due_of(huge, CompactionRules(chosen.compact_above_tokens, chosen.compact_above_turns)) is CompactionDue.DUE
    assert due_of(None, CompactionRules(1, 1)) is CompactionDue.UNKNOWN


@given(st.integers(0, 20), rules)
def test_an_episode_is_due_exactly_when_it_is_over_a_threshold(count: int, chosen: CompactionRules) -> None:
    """And has more than its recent turns. Each turn weighs one token."""
    due = is_due(EpisodeSize(count, count), chosen)
    over = [limit for limit in (chosen.above_tokens, chosen.above_turns) if limit is not None and count > limit]

    assert due == (bool(over) and count > chosen.recent_turns)


def refusal_of(contents: EpisodeContents, new: NewSummary, chosen: CompactionRules) -> SubagentsError | None:
    """Return why a summary is not taken."""
    try:
        check_summary(contents, new, chosen)
    except (SummaryOutdated, InvalidRequest, CompactionNotDue, RecentTurnsIntact) as refused:
        return refused
    return None


@given(st.integers(0, 12), st.integers(0, 14), st.integers(0, 2), rules)
def test_a_summary_is_taken_only_if_it_leaves_the_recent_turns(
    count: int, up_to: int, expected: int, chosen: CompactionRules
) -> None:
    """Whatever is asked for: if it is taken, at least the recent turns are left, unaltered, and the size shrinks."""
    history = tuple(a_turn(number) for number in range(count))
    before = EpisodeContents(None, history, count)
    new = NewSummary("", TurnId(f"t-{up_to}"), expected)
    fitting = expected == 0 and is_due(size_of(before), chosen) and up_to < count - chosen.recent_turns

    assert (refusal_of(before, new, chosen) is None) == fitting
    if not fitting:
        return
    after = EpisodeContents(Summary(1, "", new.up_to_turn_id, BEGAN), history, count)
    left = after_summary(after.turns, after.summary)
    assert tuple(left) == history[up_to + 1 :]
    assert len(left) >= chosen.recent_turns
    assert size_of(after).turns < size_of(before).turns


@given(st.integers(1, 8))
def test_the_size_grows_with_each_turn(count: int) -> None:
    """Counted one by one it is what counting at once gives."""
    history = [a_turn(number, narration="x" * number) for number in range(count)]
    sizes = [size_of(EpisodeContents(None, tuple(history[:each]))) for each in range(count + 1)]

    assert all(size_after(size, turn) == after for turn, (size, after) in zip(history, pairwise(sizes), strict=True))


def test_settings_that_cannot_work_are_refused() -> None:
    """A threshold within the recent turns, and a read that could not reach what is due."""
    with pytest.raises(ValueError, match="at least recent_turns"):
        HistorySettings(compact_above_turns=3)
    with pytest.raises(ValueError, match="episode_turns must be more"):
        HistorySettings(compact_above_turns=600)
