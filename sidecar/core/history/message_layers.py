"""Keeps the layers apart: bodies without components, annotations without payloads, answers that fit into a message.

Source: PC1-FR-10, PC1-D-26, PC1-D-28.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.dispatching.result_checks import holds_component_data
from sidecar.core.errors import FieldProblem, InlineComponent
from sidecar.core.history.records import Reference, ToolMessage, TurnHistory

Item = TypeVar("Item")

ID_NAMES: Final = frozenset({"id", "ids", "component_id", "component_ids"})
"""Members of a tool input whose values are component ids.

All other members, such as titles and tags, stay in their layer.
"""
MOST_IDS: Final = 32
LONGEST_ID: Final = 128
"""Characters; a longer id is cut."""
DEEPEST: Final = 6
"""Levels of nesting in which ids are searched."""


def refuse_component_data(field: str, text: str) -> None:
    """Raise `InlineComponent` if an assistant's body contains component data. Source: PC1-FR-10a."""
    if holds_component_data(text):
        raise InlineComponent(
            f"{field} holds component data; send narration only, components travel as tool messages",
            fields=[FieldProblem(field, "holds a <component> marker, a JSON block, or is nothing but JSON")],
        )


def check_bodies(turn: TurnHistory) -> None:
    """Raise `InlineComponent` unless every assistant's body of a turn is only narration."""
    refuse_component_data("narration", turn.narration)
    for place, answer in enumerate(turn.answers):
        refuse_component_data(f"answers[{place}].narration", answer.narration)


def references_of(tool_messages: Sequence[ToolMessage]) -> tuple[Reference, ...]:
    """Return the compact annotation of each component: its ids and its position, without its contents."""
    return tuple(
        Reference(each.turn_id, each.sub_agent_id, each.name, each.position, component_ids_of(each.tool_input_json))
        for each in tool_messages
    )


def newest_that_fit(items: Sequence[Item], most: int, room: int, weight: Callable[[Item], int]) -> tuple[Item, ...]:
    """Return the newest items that fit, oldest first. Omitted items are older than all returned ones.

    Args:
        items: oldest first.
        most: the largest number; 0 or more.
        room: the largest sum of weights.
        weight: returns the weight of one item; 0 or more.
    """
    begin, left = len(items), room
    # From the newest item backwards.
    while begin > max(0, len(items) - most):
        left -= weight(items[begin - 1])
        # Stops at the first item that does not fit: a later, smaller one would leave a gap in the conversation.
        if left < 0:
            break
        begin -= 1
    return tuple(items[begin:])


def component_ids_of(tool_input_json: str) -> tuple[str, ...]:
    """Return the ids in a tool input or in a component's data; empty if it is not JSON."""
    try:
        found = _ids_in(from_json(tool_input_json), DEEPEST)
    except DecodeError:
        return ()
    # Without repetitions, in the order of the input: users refer to components by their order.
    return tuple(dict.fromkeys(each[:LONGEST_ID] for each in found))[:MOST_IDS]


def _ids_in(value: Any, depth: int) -> Iterator[str]:
    # The JSON is a sub-agent's; deep nesting must not exhaust the stack.
    if depth == 0:
        return
    if isinstance(value, list):
        for each in value:
            yield from _ids_in(each, depth - 1)
    elif isinstance(value, dict):
        for name, member in value.items():
            if name in ID_NAMES:
                # Not searched for nested ids: an object under such a name is data, not an id.
                yield from _plain_ids(member)
            else:
                yield from _ids_in(member, depth - 1)


def _plain_ids(member: Any) -> Iterator[str]:
    for each in member if isinstance(member, list) else [member]:
        # A boolean is an `int` in Python.
        if isinstance(each, str | int) and not isinstance(each, bool):
            yield str(each)
