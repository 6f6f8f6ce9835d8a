"""Converts turns of the earlier system into present turns. Source: PC1-D-30, PC1-D-50, PC1 R-2, R-3.

A message belongs to a sub-agent only if it is tagged, or if all its labels mean the same sub-agent by the operator's
mapping. Every other message stays in the conversation without a sub-agent. Nothing is guessed, because a wrong guess
would show one sub-agent the messages of another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json, from_utf8
from sidecar.core.dispatching.result_checks import holds_component_data
from sidecar.core.history.legacy_records import Finding, ImportProblem, LegacyRecord
from sidecar.core.history.message_layers import component_ids_of
from sidecar.core.history.records import EpisodeKey, SubAgentAnswer, ToolMessage, TurnHistory
from sidecar.core.identifiers import DEFINITION_SIDE, CallId, EpisodeId, Principal, Slot, TurnId
from subagents_legacy import Marker, split_markers

NO_SUB_AGENT: Final = Slot("")
"""Tag of components that belong to no sub-agent. No slot is empty, so no sub-agent reads them as its own."""
CALL: Final = "legacy"
BETWEEN: Final = "\n\n"

Labels = Mapping[str, Slot]
"""The sub-agent that each intent label of the classifier means."""
Numbered = tuple[int, LegacyRecord]
"""The number of a line in the imported file, and its message."""


@dataclass(slots=True)
class _Taken:
    """The contents of one turn, collected from its messages so far."""

    said: list[str] = field(default_factory=list)
    narration: list[str] = field(default_factory=list)
    by_slot: dict[Slot, list[str]] = field(default_factory=dict)
    components: list[tuple[Slot, str, str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def turn_of(records: Sequence[Numbered], labels: Labels) -> tuple[TurnHistory, Sequence[Finding]]:
    """Return one turn, and the findings about it.

    Args:
        records: all messages of one turn with their line numbers, in order; at least one.
        labels: the sub-agents that the classifier's labels mean.
    """
    taken = _Taken()
    for number, record in records:
        match record.role:
            case "user":
                taken.said.append(record.text_content)
            case "assistant":
                _take_assistant(taken, number, record, labels)
            case "tool":
                _take_tool(taken, number, record, labels)
    first = records[0][1]
    turn_id = TurnId(first.turn_id)
    asked = BETWEEN.join(text for text in taken.said if text)
    turn = TurnHistory(
        episode=EpisodeKey(EpisodeId(first.episode_id), Principal(first.principal)),
        turn_id=turn_id,
        # The latest message: clocks of the earlier system may have differed between messages of one turn.
        ended_at=max(record.at for _, record in records),
        user_message=asked,
        narration=_narration(taken, taken.narration, records[0][0], first.turn_id),
        answers=tuple(
            SubAgentAnswer(slot, _call_of(slot), asked, _narration(taken, texts, records[0][0], first.turn_id))
            for slot, texts in taken.by_slot.items()
        ),
        tool_messages=tuple(
            ToolMessage(turn_id, slot, _call_of(slot), place, name, given, made)
            for place, (slot, name, given, made) in enumerate(taken.components)
        ),
    )
    return turn, taken.findings


def slot_of(record: LegacyRecord, labels: Labels) -> tuple[Slot, tuple[ImportProblem, str] | None]:
    """Return the slot of a message, or `NO_SUB_AGENT` and the reason if the slot is uncertain."""
    # None for a label that the operator has not mapped.
    meant = [labels.get(label) for label in record.intent_labels]
    if record.sub_agent_id:
        slot = Slot(record.sub_agent_id)
        if not DEFINITION_SIDE.match(slot):
            return NO_SUB_AGENT, (ImportProblem.TAG_MALFORMED, "sub_agent_id is not the id of a sub-agent")
        # A label that contradicts the tag makes both uncertain; the message stays in the conversation without a
        # sub-agent.
        others = [each for each in meant if each not in {None, slot}]
        if others:
            return NO_SUB_AGENT, (
                ImportProblem.TAG_CONTRADICTED,
                f"tagged {slot}, labelled {', '.join(map(str, others))}",
            )
        return slot, None
    unknown = [label for label in record.intent_labels if label not in labels]
    if unknown:
        return NO_SUB_AGENT, (ImportProblem.UNKNOWN_LABEL, ", ".join(unknown))
    if len(dict.fromkeys(meant)) > 1:
        return NO_SUB_AGENT, (ImportProblem.SEVERAL_LABELS, ", ".join(record.intent_labels))
    return (meant[0] or NO_SUB_AGENT) if meant else NO_SUB_AGENT, None


def _take_assistant(taken: _Taken, number: int, record: LegacyRecord, labels: Labels) -> None:
    slot = _attributed(taken, number, record, labels)
    # The earlier system wrote components as markers into the text; here they become tool messages.
    split = split_markers(record.text_content)
    # A message may consist of markers only.
    if split.narration:
        taken.narration.append(split.narration)
    if slot:
        taken.by_slot.setdefault(slot, []).append(split.narration)
    for defect in split.defects:
        detail = f"{defect.damage}: {defect.length} characters left out"
        taken.findings.append(Finding(ImportProblem.MARKER_DAMAGED, number, detail, record.turn_id, defect.offset))
    for marker in split.markers:
        # `replace`: the text is foreign, and this check must not raise whatever it contains.
        if _is_container(marker.data_json.encode(errors="replace")):
            taken.components.append((slot, marker.type, _input_of(marker), marker.data_json))
        else:
            detail = f"{marker.type}: {len(marker.data_json)} characters left out"
            taken.findings.append(Finding(ImportProblem.MARKER_DAMAGED, number, detail, record.turn_id, marker.offset))


def _take_tool(taken: _Taken, number: int, record: LegacyRecord, labels: Labels) -> None:
    slot = _attributed(taken, number, record, labels)
    given, made = bytes(record.tool_input), bytes(record.component_data)
    missing = [name for name, value in (("name", record.name), ("component_data", made)) if not value]
    if missing:
        detail = f"lacks {' and '.join(missing)}; left out"
        taken.findings.append(Finding(ImportProblem.COMPONENT_DAMAGED, number, detail, record.turn_id))
        return
    # A sub-agent that created only components gets an answer, too, with which its components are joined.
    if slot:
        taken.by_slot.setdefault(slot, [])
    # Kept byte for byte, as the earlier system wrote them.
    taken.components.append((slot, record.name, from_utf8(given), from_utf8(made)))


def _attributed(taken: _Taken, number: int, record: LegacyRecord, labels: Labels) -> Slot:
    slot, uncertain = slot_of(record, labels)
    if uncertain is not None:
        taken.findings.append(Finding(uncertain[0], number, uncertain[1], record.turn_id))
    return slot


def _narration(taken: _Taken, texts: Sequence[str], number: int, turn_id: str) -> str:
    """Return the texts, joined; empty, with a finding, if they are component data."""
    joined = BETWEEN.join(text for text in texts if text)
    # Checked after joining: two harmless pieces may form JSON together.
    if not holds_component_data(joined):
        return joined
    taken.findings.append(Finding(ImportProblem.MARKER_DAMAGED, number, "the whole body is component data", turn_id, 0))
    return ""


def _call_of(slot: Slot) -> CallId:
    # One call per sub-agent and turn: the earlier system had no calls, and answers and components are joined by this
    # id.
    return CallId(f"{CALL}-{slot}" if slot else CALL)


def _input_of(marker: Marker) -> str:
    """Return a tool input for a component that has none: its type, and the ids in its data."""
    ids = list(component_ids_of(marker.data_json))
    return msgspec.json.encode({"component_type": marker.type, "component_ids": ids}).decode()


def _is_container(data: bytes) -> bool:
    try:
        return isinstance(from_json(data), dict | list)
    except DecodeError:
        return False
