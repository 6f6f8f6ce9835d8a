"""Idempotency keys of tool calls, and the sent effects that the events of children show.

The key of a call is derived from its child, its tool, its arguments and its number among equal calls of the attempt.
Another attempt of the child, also at a sidecar that took it over, derives the same key for the same call without
reading anything. Two equal calls of one attempt have two keys, because they are two calls.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.executing.events import EFFECT_SENT, EFFECT_SETTLED
from sidecar.core.executing.stored_record import StoredChild
from sidecar.core.identifiers import ChildId, ToolId
from sidecar.core.json_schemas import canonical_text

PREFIX: Final = "ik1-"
KEY_DIGITS: Final = 40
"""160 bits in hexadecimal digits."""


def idempotency_key(child_id: ChildId, tool_id: ToolId, arguments: str, number: int) -> str:
    """Return the key of a call, 44 printable ASCII characters.

    Args:
        child_id: the id of the calling child. It is random, so that another user's child cannot guess the key.
        tool_id: the id of the tool.
        arguments: the arguments, as returned by `comparable`.
        number: the number of this call, from 1, among the attempt's calls of the tool with these arguments.
    """
    # The separator occurs in none of the parts, so two different calls cannot be joined to the same text.
    covered = "\x1f".join((child_id, tool_id, str(number), arguments))
    return PREFIX + sha256(covered.encode()).hexdigest()[:KEY_DIGITS]


def comparable(arguments_json: str) -> str:
    """Return arguments as a text that is independent of white space and of the order of members."""
    return canonical_text(from_json(arguments_json))


class RecordedEffects(msgspec.Struct, frozen=True):
    """The recorded effects of a child and of its delegated children.

    Attributes:
        unknown: effects that may have happened, without a recorded result.
        sent: effects that were sent, whatever their results are.
    """

    unknown: int = 0
    sent: int = 0

    def __add__(self, other: "RecordedEffects") -> "RecordedEffects":
        """Return the sum of both counts."""
        return RecordedEffects(self.unknown + other.unknown, self.sent + other.sent)


NO_EFFECTS: Final = RecordedEffects()


def recorded_effects(children: Iterable[StoredChild]) -> Mapping[ChildId, RecordedEffects]:
    """Return the recorded effects of each child of a turn that has any, including those of its delegated children.

    The result of an effect is recorded with the next fact of its child. If the sidecar dies before, the result is lost,
    and the effect counts as unknown.
    """
    parents: dict[ChildId, ChildId | None] = {}
    found: dict[ChildId, RecordedEffects] = {}
    for child in children:
        child_id = child.opened.child_id
        parents[child_id] = child.opened.parent_child_id
        # A parent comes before its delegates (order of opening), so `parents` has the whole path upwards.
        own = _own(child)
        above: ChildId | None = child_id if own.sent else None
        # Effects count for all delegating children too: another attempt of one of them would delegate again, with a new
        # child and new keys.
        while above is not None:
            found[above] = found.get(above, NO_EFFECTS) + own
            above = parents.get(above)
    return found


def _own(child: StoredChild) -> RecordedEffects:
    waiting, sent = set[str](), 0
    for event in child.events:
        if event.name == EFFECT_SENT:
            sent += 1
            # Erased values have no key: no result can be matched with the effect, and it counts as unknown.
            waiting.add(str(event.details().get("key", event.event_id)))
        elif event.name == EFFECT_SETTLED:
            # By key and not by number: results may be recorded in another order than the effects were sent.
            waiting.discard(event.details().get("key"))
    return RecordedEffects(len(waiting), sent)
