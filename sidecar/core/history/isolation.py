"""A sub-agent reads only its own turns of this session. Source: PC1-FR-7, PC1-D-29, TN-11."""

from collections.abc import Iterable, Sequence

from sidecar.core.history.message_layers import references_of
from sidecar.core.history.records import OwnTurn, TurnHistory
from sidecar.core.identifiers import Slot, TurnId


def own_turns_of(turns: Iterable[TurnHistory], slot: Slot) -> tuple[OwnTurn, ...]:
    """Return the answers of the sub-agent in `slot`, in the order of `turns`; for adapters that store whole turns."""
    return tuple(own for turn in turns for own in _own_of(turn, slot))


def _own_of(turn: TurnHistory, slot: Slot) -> Iterable[OwnTurn]:
    for answer in turn.answers:
        if answer.sub_agent_id == slot:
            # By call and not only by slot: a sub-agent may have been called twice in one turn.
            components = [
                each for each in turn.tool_messages if each.sub_agent_id == slot and each.call_id == answer.call_id
            ]
            yield OwnTurn(
                turn_id=turn.turn_id,
                sub_agent_id=slot,
                ended_at=turn.ended_at,
                asked=answer.asked,
                narration=answer.narration,
                references=references_of(components),
            )


def only_own(found: Sequence[OwnTurn], slot: Slot, current: TurnId) -> tuple[tuple[OwnTurn, ...], int]:
    """Check what a memory returned for a sub-agent; no memory is trusted with this.

    Returns:
        (the sub-agent's own earlier turns, number of entries of others among them).
    """
    own = tuple(each for each in found if _belongs_to(each, slot))
    # The current turn is left out, but is not foreign: a memory may have stored it already.
    return tuple(each for each in own if each.turn_id != current), len(found) - len(own)


def _belongs_to(turn: OwnTurn, slot: Slot) -> bool:
    # The references as well: an annotation of a foreign component would reveal what another sub-agent showed.
    return turn.sub_agent_id == slot and all(
        each.sub_agent_id == slot and each.turn_id == turn.turn_id for each in turn.references
    )
