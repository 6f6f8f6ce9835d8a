"""Finds the definition that a request means, in memory and on record."""

from collections.abc import Callable, Mapping

from sidecar.core.definitions.card import Card
from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.view import revised_by
from sidecar.operations.rollout.requests import Asked

Found = tuple[SlotRollout, DefinitionFacts]


def found_in(slots: Mapping[Slot, SlotRollout], asked: Asked) -> Found | None:
    """Return the definition that is meant: of several with its id the one that serves, else the newest."""
    for slot in sorted(slots):
        rollout = slots[slot]
        if asked.slot not in {"", slot}:
            continue
        fitting = [each for each in rollout.of_id(asked.definition_id) if asked.digest in {"", each.digest}]
        if fitting:
            serving = [each for each in fitting if each.digest == rollout.active]
            return rollout, (serving or fitting)[-1]
    return None


def found_here(
    slots: Mapping[Slot, SlotRollout], asked: Asked, card_of: Callable[[Digest], Card | None]
) -> Found | None:
    """Return the definition that is meant, as this replica shows it.

    A minor revision that is loaded and not shown yet means the content that it revises: a stop is of the definition,
    and with the store away that content would be served on.

    Args:
        slots: as shown.
        asked: what is wanted.
        card_of: returns a card that was ever loaded here.
    """
    found = found_in(slots, asked)
    card = card_of(Digest(asked.digest)) if found is None and asked.digest else None
    if card is None or card.definition.id != asked.definition_id or asked.slot not in {"", card.definition.slot}:
        return found
    rollout = slots.get(card.definition.slot)
    facts = revised_by(rollout, card.definition.id, card.shape) if rollout is not None else None
    return (rollout, facts) if rollout is not None and facts is not None else None


def with_digest(slots: Mapping[Slot, SlotRollout], digest: Digest) -> Found | None:
    """Return the definition with a content, whatever it is called; None: there is none such."""
    return next(((each, each.definitions[digest]) for each in slots.values() if digest in each.definitions), None)


def unseen(digest: str, definition_id: DefinitionId, slot: Slot) -> Found:
    """Return a definition of which nothing is known but its name, so that it can be stopped even so."""
    facts = DefinitionFacts(
        digest=Digest(digest), definition_id=definition_id, commit=Commit(""), vertical=Vertical("")
    )
    return SlotRollout(slot=slot), facts
