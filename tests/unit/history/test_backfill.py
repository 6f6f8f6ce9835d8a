"""Legacy messages become turns: whose they are is said by somebody, or they are nobody's."""

import json
from typing import Any

import pytest

from sidecar.core.history.backfill import turn_of
from sidecar.core.history.isolation import own_turns_of
from sidecar.core.history.legacy_records import Finding, ImportProblem, LegacyRecord, read_record
from sidecar.core.history.message_layers import check_bodies, references_of
from sidecar.core.history.records import TurnHistory
from sidecar.core.identifiers import Slot
from tests.support.requirement import requirement

LABELS = {"shopping": Slot("shop"), "deals": Slot("shop"), "points": Slot("rewards")}
SHOP, REWARDS = Slot("shop"), Slot("rewards")
MARKED = 'Here. <component type="offer">{"id": "o-1", "price": 3}</component>'


def line(role: str, text: str = "", **fields: Any) -> bytes:
    """Return one line of an export."""
    given = {"turn_id": "t-1", "episode_id": "e-1", "principal": "user-1", "at": "2025-05-01T10:00:00Z", "role": role}
    return json.dumps({**given, "text_content": text, **fields}).encode()


def made(*lines: bytes) -> tuple[TurnHistory, list[Finding]]:
    """Read lines, all of one turn."""
    records = []
    for number, each in enumerate(lines, start=1):
        record = read_record(each, number)
        assert isinstance(record, LegacyRecord)
        records.append((number, record))
    turn, findings = turn_of(records, LABELS)
    check_bodies(turn)
    return turn, list(findings)


@requirement("PC1-D-30", "PC1-D-50")
def test_markers_of_a_tagged_message_become_its_tool_messages() -> None:
    """With positions in the turn, references by id, and a narration without them."""
    turn, findings = made(
        line("user", "What is new?"),
        line("assistant", f"{MARKED} {MARKED.replace('o-1', 'o-2')}", sub_agent_id="shop"),
        line("tool", name="render_list", tool_input={"ids": ["o-3"]}, component_data={"rows": 2}, sub_agent_id="shop"),
    )

    assert (turn.user_message, turn.narration) == ("What is new?", "Here.  Here.")
    assert [(each.name, each.position) for each in turn.tool_messages] == [
        ("offer", 0),
        ("offer", 1),
        ("render_list", 2),
    ]
    assert turn.tool_messages[0].component_data_json == '{"id": "o-1", "price": 3}'
    assert [each.component_ids for each in references_of(turn.tool_messages)] == [("o-1",), ("o-2",), ("o-3",)]
    (own,) = own_turns_of([turn], SHOP)
    assert (own.asked, own.narration, len(own.references)) == ("What is new?", "Here.  Here.", 3)
    assert not findings


@pytest.mark.parametrize(
    ("fields", "slot"),
    [
        ({"sub_agent_id": "shop"}, SHOP),
        ({"intent_labels": ["points"]}, REWARDS),
        ({"intent_labels": ["shopping", "deals"]}, SHOP),
        ({"sub_agent_id": "shop", "intent_labels": ["deals", "no-such-label"]}, SHOP),
    ],
)
def test_a_tag_or_labels_that_agree_say_whose_a_message_is(fields: dict[str, Any], slot: Slot) -> None:
    """The tag itself, one label, several that mean the same, and labels beside a tag."""
    turn, findings = made(line("user", "hi"), line("assistant", "hello", **fields))

    assert [answer.sub_agent_id for answer in turn.answers] == [slot]
    assert not findings


@pytest.mark.parametrize(
    ("fields", "trouble"),
    [
        ({}, None),
        ({"intent_labels": ["weather"]}, ImportProblem.UNKNOWN_LABEL),
        ({"intent_labels": ["shopping", "weather"]}, ImportProblem.UNKNOWN_LABEL),
        ({"intent_labels": ["shopping", "points"]}, ImportProblem.SEVERAL_LABELS),
        ({"sub_agent_id": "shop", "intent_labels": ["points"]}, ImportProblem.TAG_CONTRADICTED),
        ({"sub_agent_id": "Shop!"}, ImportProblem.TAG_MALFORMED),
    ],
)
@requirement("PC1-D-30")
def test_a_message_that_nothing_certain_is_said_of_belongs_to_no_sub_agent(
    fields: dict[str, Any], trouble: ImportProblem | None
) -> None:
    """It stays in the conversation, its component too; no sub-agent reads either."""
    turn, findings = made(line("assistant", MARKED, **fields))

    assert turn.narration == "Here."
    assert [each.sub_agent_id for each in turn.tool_messages] == [""]
    assert [own_turns_of([turn], slot) for slot in (SHOP, REWARDS)] == [(), ()]
    assert [each.trouble for each in findings] == ([trouble] if trouble else [])


def test_damage_is_reported_with_line_and_offset_and_nothing_that_was_said() -> None:
    """A broken marker, a component that JSON readers refuse, and a tool message without contents."""
    turn, findings = made(
        line("user", "hi"),
        line("assistant", 'So: <component type="offer">{secret</component> done', sub_agent_id="shop"),
        line("tool", name="render_list", sub_agent_id="shop"),
    )

    assert turn.narration == "So:  done"
    assert [(each.trouble, each.line, each.offset) for each in findings] == [
        (ImportProblem.MARKER_DAMAGED, 2, 4),
        (ImportProblem.COMPONENT_DAMAGED, 3, None),
    ]
    assert "secret" not in str(findings)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{not json", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"[" * 100_000, "object"),
        (line("judge"), "role"),
        (line("user", at="2025-05-01T10:00:00"), "at"),
        (line("user", at="yesterday"), "at"),
        (line("user", turn_id="has space"), "turn_id"),
        (line("user", principal=""), "principal"),
        (b'{"turn_id": "t-1"}', "episode_id"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(bad: bytes, says: str) -> None:
    """Which field, and what would be right."""
    read = read_record(bad, 7)

    assert isinstance(read, Finding)
    assert (read.trouble, read.line) == (ImportProblem.UNREADABLE, 7)
    assert says in read.detail
