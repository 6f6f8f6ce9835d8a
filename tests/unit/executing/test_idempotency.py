"""Idempotency keys, and the effects that the events of children show to the sidecar that takes a turn over."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from sidecar.core.executing.events import EFFECT_SENT, EFFECT_SETTLED, ChildEvent
from sidecar.core.executing.idempotency import RecordedEffects, comparable, idempotency_key, recorded_effects
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.stored_record import StoredChild
from sidecar.core.identifiers import CallId, ChildId, DispatchId, EpisodeId, Slot, ToolId, TurnId

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_key_depends_on_child_tool_arguments_and_number() -> None:
    """It is that of other sidecars and of earlier versions, because a takeover derives it again."""
    key = idempotency_key(ChildId("child-1"), ToolId("order"), '{"a":1}', 1)
    assert key == "ik1-53a762443fc9aaa9fc0e3de456b908b13e17b4dd"
    others = {
        idempotency_key(ChildId("child-2"), ToolId("order"), '{"a":1}', 1),
        idempotency_key(ChildId("child-1"), ToolId("refund"), '{"a":1}', 1),
        idempotency_key(ChildId("child-1"), ToolId("order"), '{"a":2}', 1),
        idempotency_key(ChildId("child-1"), ToolId("order"), '{"a":1}', 2),
    }
    assert len(others | {key}) == 5
    assert idempotency_key(ChildId("a"), ToolId("bc"), "", 1) != idempotency_key(ChildId("ab"), ToolId("c"), "", 1)


def test_equal_arguments_are_one_text() -> None:
    """Whatever the order of members and the white space are."""
    assert comparable('{"b": [1, 2],  "a": "x"}') == comparable('{"a":"x","b":[1,2]}') == '{"a":"x","b":[1,2]}'


def a_child(name: str, *events: tuple[str, Mapping[str, str]], parent: str | None = None) -> StoredChild:
    """Return a child with these events, each given by its name and details."""
    opened = ChildOpened(
        child_id=ChildId(name),
        turn_id=TurnId("turn-1"),
        episode_id=EpisodeId("e-1"),
        dispatch_id=DispatchId("d-1"),
        call_id=CallId("c-1"),
        slot=Slot("shop"),
        step_idx=0,
        context_json="{}",
        opened_at=NOW,
        parent_child_id=None if parent is None else ChildId(parent),
    )
    log = [
        ChildEvent(
            f"{name}/{number}",
            opened.child_id,
            opened.turn_id,
            number,
            kind,
            NOW,
            "sidecar",
            "",
            json.dumps(said),
            "",
            "",
        )
        for number, (kind, said) in enumerate(events, start=1)
    ]
    return StoredChild(opened, tuple(log))


def sent(key: str) -> tuple[str, Mapping[str, str]]:
    """Return the event of a sent effect."""
    return EFFECT_SENT, {"key": key}


def settled(key: str) -> tuple[str, Mapping[str, str]]:
    """Return the event of its result."""
    return EFFECT_SETTLED, {"key": key}


@pytest.mark.parametrize(
    ("events", "effects"),
    [
        ([sent("a")], RecordedEffects(unknown=1, sent=1)),
        ([sent("a"), settled("a")], RecordedEffects(unknown=0, sent=1)),
        ([sent("a"), sent("b"), settled("a")], RecordedEffects(unknown=1, sent=2)),
        ([sent("a"), sent("b"), settled("b"), settled("a")], RecordedEffects(unknown=0, sent=2)),
        ([sent("a"), settled("b")], RecordedEffects(unknown=1, sent=1)),
        ([sent("a"), (EFFECT_SETTLED, {})], RecordedEffects(unknown=1, sent=1)),
        ([sent("a"), ("agent.note", {"key": "a"})], RecordedEffects(unknown=1, sent=1)),
        ([(EFFECT_SENT, {}), (EFFECT_SENT, {})], RecordedEffects(unknown=2, sent=2)),
        ([(EFFECT_SENT, {}), (EFFECT_SETTLED, {"key": "child/1"})], RecordedEffects(unknown=0, sent=1)),
    ],
)
def test_an_effect_without_a_recorded_result_is_unknown(
    events: list[tuple[str, Mapping[str, str]]], effects: RecordedEffects
) -> None:
    """A result belongs to the effect with its key, in whatever order results come."""
    assert recorded_effects([a_child("child", *events)]) == {"child": effects}


def test_effects_count_for_every_child_that_delegated_to_their_child() -> None:
    """Another attempt of one of them would delegate again. A child without effects, own or delegated, is left out."""
    children = [
        a_child("top", sent("a"), settled("a")),
        a_child("idle", ("agent.note", {})),
        a_child("middle", parent="top"),
        a_child("low", sent("b"), sent("c"), settled("b"), parent="middle"),
        a_child("other", sent("d"), parent="elsewhere"),
    ]

    assert recorded_effects(children) == {
        "top": RecordedEffects(unknown=1, sent=3),
        "middle": RecordedEffects(unknown=1, sent=2),
        "low": RecordedEffects(unknown=1, sent=2),
        "other": RecordedEffects(unknown=1, sent=1),
        "elsewhere": RecordedEffects(unknown=1, sent=1),
    }
    assert recorded_effects([a_child("idle")]) == {}


def test_effects_are_added_field_by_field() -> None:
    """Unknown ones to unknown ones."""
    assert RecordedEffects(1, 2) + RecordedEffects(10, 20) == RecordedEffects(11, 22)
