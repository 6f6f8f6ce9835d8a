"""Selects the definition that serves each slot for one user, from memory.

A slot is the stable name under which an orchestrator calls a sub-agent; several definitions of one slot may be served
to different users while a rollout is under way.

Source: DESIGN section 8, TN-51, TN-58, TN-62.
"""

from collections.abc import Callable

import msgspec

from sidecar.core.binding.surface import Candidate
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.serving import BindSubject, CandidateVerdict, FlagReader, serving_definition
from sidecar.core.rollout.view import RolloutView

CardOf = Callable[[Digest], Card | None]


Flags = FlagReader


class SlotCandidates(msgspec.Struct, frozen=True):
    """The definition that serves a slot for a user, and the verdicts on all evaluated candidates.

    Attributes:
        digest: None: no definition serves.
    """

    slot: Slot
    digest: Digest | None
    candidates: tuple[Candidate, ...]


def evaluate_slots(
    slot: Slot, catalogue: Catalogue, flags: Flags, view: RolloutView, asker: BindSubject
) -> SlotCandidates:
    """Return the definition that serves `slot` for a user."""
    rollout = view.slots.get(slot)
    # The store has not recorded the slot yet. It serves nothing until then: a definition must be on record first.
    if rollout is None:
        listed = catalogue.slots.get(slot)
        verdict = CandidateVerdict.STATE if listed else CandidateVerdict.NOT_LISTED
        # A slot that no entry fills has a row as well: the routing decision explains every listed slot.
        return SlotCandidates(slot, None, tuple(Candidate(slot, each, verdict) for each in listed or (None,)))
    return _by_rollout(rollout, catalogue, flags, view.killed, asker)


def excluded_candidates(slot: Slot, catalogue: Catalogue) -> SlotCandidates:
    """Return the verdict on a slot beyond the number of sub-agents that a turn may offer."""
    # No rollout is read: the slot is beyond the limit whatever would serve it.
    names = catalogue.slots.get(slot) or (None,)
    return SlotCandidates(slot, None, tuple(Candidate(slot, name, CandidateVerdict.NOT_LISTED) for name in names))


def _by_rollout(
    rollout: SlotRollout, catalogue: Catalogue, flags: Flags, killed: frozenset[Digest], asker: BindSubject
) -> SlotCandidates:
    slot = rollout.slot
    # From the configuration, and not from the rollout: an entry is deprecated from the load of the file on.
    deprecated = frozenset(
        card.digest
        for definition_id in catalogue.slots.get(slot, ())
        if (card := catalogue.cards[definition_id]).definition.deprecated
    )
    if rollout.active is not None and rollout.active in killed:  # killed here, not recorded yet: the slot stays empty
        name = rollout.definitions[rollout.active].definition_id
        return SlotCandidates(slot, None, (Candidate(slot, name, CandidateVerdict.KILLED),))
    # A local kill counts like a deprecation here: the definition is also excluded as the target of another one.
    served = serving_definition(rollout, asker, flags, deprecated | killed)
    candidates = tuple(
        Candidate(slot, rollout.definitions[digest].definition_id, verdict) for digest, verdict in served.verdicts
    )
    return SlotCandidates(slot, served.digest, candidates or (Candidate(slot, None, CandidateVerdict.NOT_LISTED),))
