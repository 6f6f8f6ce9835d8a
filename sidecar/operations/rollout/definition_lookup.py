"""Finds the definition that a request names, in memory and in the record.

Every step on a rollout begins here. A kill must find its definition even while the store is unavailable, so the
look-up in memory is separate from the one in the record, which decides.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import RevisionConflict, SubagentsError, UnknownDefinition
from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.view import as_revised, revised_by
from sidecar.operations.rollout.requests import Kill, RampDown, StepRequest
from sidecar.operations.rollout.store.ports import LocalStop


class DefinitionMatch(NamedTuple):
    """A definition, and the rollout of its slot."""

    rollout: SlotRollout
    facts: DefinitionFacts


def match_in(slots: Mapping[Slot, SlotRollout], asked: StepRequest) -> DefinitionMatch | None:
    """Return the requested definition: of several with its id the active one, otherwise the newest."""
    # Sorted: every replica must find the same definition for a request without a slot.
    for slot in sorted(slots):
        rollout = slots[slot]
        if asked.slot not in {"", slot}:
            continue
        fitting = [each for each in rollout.of_id(asked.definition_id) if asked.digest in {"", each.digest}]
        if fitting:
            # Operators name ids and mean what users get; only without an active content the newest is meant.
            serving = [each for each in fitting if each.digest == rollout.active]
            return DefinitionMatch(rollout, (serving or fitting)[-1])
    return None


def match_on_record(slots: Mapping[Slot, SlotRollout], asked: StepRequest, held: LocalStop | None) -> DefinitionMatch:
    """Return the requested definition, as it is recorded.

    Args:
        slots: the recorded rollouts.
        asked: the request.
        held: the local stop that already holds for the request. It stays on its definition, even if the definition's
            content has changed since.

    Raises:
        UnknownDefinition: no definition has that id.
        RevisionConflict: the definition has another content than the request names.
    """
    if held is not None and isinstance(asked, Kill):
        asked = msgspec.structs.replace(asked, definition_id=held.definition_id)
        found = _match_killed(slots, asked, held)
        # The held digest was used for the search. The error below must name the id, which the operator knows.
        asked = msgspec.structs.replace(asked, digest="")
    else:
        asked = asked if held is None else msgspec.structs.replace(asked, digest=held.digest)
        found = match_in(slots, asked)
        if found is None and isinstance(asked, RampDown):  # the content may have been revised since the local stop
            found = _as_revised(slots, asked)
    if found is None:
        raise not_found(slots, asked)
    return found


def _match_killed(slots: Mapping[Slot, SlotRollout], asked: Kill, held: LocalStop) -> DefinitionMatch | None:
    """Return the definition that a kill means: by the held or the named digest, or as a later revision of either."""
    digests = [held.digest, *filter(None, [asked.digest])]
    exact = (msgspec.structs.replace(asked, slot=held.slot, digest=each) for each in digests)
    found = next(filter(None, (match_in(slots, each) for each in exact)), None)
    # Content first, id second: between the local kill and this look-up, the id may have got another content.
    in_held_slot = msgspec.structs.replace(asked, slot=held.slot)
    found = found or (_as_revised(slots, in_held_slot) if held.slot in slots else None)
    found = found or match_in(slots, msgspec.structs.replace(asked, digest=""))
    with_digest = (
        DefinitionMatch(each, each.definitions[held.digest])
        for each in slots.values()
        if held.digest in each.definitions
    )
    return found or next(with_digest, None)  # the content was loaded under another id; the kill is of the content


def _as_revised(slots: Mapping[Slot, SlotRollout], asked: StepRequest) -> DefinitionMatch | None:
    """Return the present state of the requested definition if its content was revised."""
    rollouts = (rollout for slot, rollout in sorted(slots.items()) if asked.slot in {"", slot})
    revised = ((rollout, as_revised(rollout, asked.definition_id)) for rollout in rollouts)
    return next((DefinitionMatch(rollout, facts) for rollout, facts in revised if facts is not None), None)


def match_in_memory(
    slots: Mapping[Slot, SlotRollout], asked: StepRequest, card_of: Callable[[Digest], Card | None]
) -> DefinitionMatch | None:
    """Return the requested definition, as binds of this replica see it.

    A minor revision that is loaded but not shown yet means the content that it revises. A stop applies to the
    definition, and while the store is unavailable that earlier content would continue to be served.

    Args:
        slots: as binds see them.
        asked: the request.
        card_of: returns a card that was ever loaded here.
    """
    found = match_in(slots, asked)
    card = card_of(Digest(asked.digest)) if found is None and asked.digest else None
    if card is None or card.definition.id != asked.definition_id or asked.slot not in {"", card.definition.slot}:
        return found
    rollout = slots.get(card.definition.slot)
    facts = revised_by(rollout, card.definition.id, card.shape) if rollout is not None else None
    return DefinitionMatch(rollout, facts) if rollout is not None and facts is not None else None


def not_found(slots: Mapping[Slot, SlotRollout], asked: StepRequest) -> SubagentsError:
    """Return the error if `match_in` finds nothing: an unknown id, or a different content."""
    by_id = match_in(slots, msgspec.structs.replace(asked, digest=""))
    if by_id is None:
        where = f"the slot {asked.slot!r}" if asked.slot else "any slot"
        return UnknownDefinition(
            f"{where} has no definition {asked.definition_id[:60]!r}; `sidecar subagent list` shows all"
        )
    return other_content(*by_id, asked.digest)


def other_content(rollout: SlotRollout, facts: DefinitionFacts, digest: str) -> RevisionConflict:
    """Return the refusal of a digest that the definition does not have (any more); `facts` has the present one."""
    return RevisionConflict(
        f"{rollout.slot} has no content {digest[:80]!r} of {facts.definition_id} (any more); its content is"
        f" {facts.digest}, at revision {rollout.revision}: read again",
        metadata={"revision": str(rollout.revision), "slot": rollout.slot, "digest": facts.digest},
    )


def definition_not_seen(digest: str, definition_id: DefinitionId, slot: Slot) -> DefinitionMatch:
    """Return a definition of which only the name is known, so that it can be stopped nevertheless."""
    facts = DefinitionFacts(
        digest=Digest(digest), definition_id=definition_id, commit=Commit(""), vertical=Vertical("")
    )
    return DefinitionMatch(SlotRollout(slot=slot), facts)
