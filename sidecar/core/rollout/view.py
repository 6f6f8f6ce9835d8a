"""The view of all rollouts that binds read: one immutable value.

`views/snapshot` replaces the whole value when the store has changed. A bind reads the value once, and so sees one
consistent state without a lock.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from sidecar.core.identifiers import DefinitionId, Digest, Slot
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.states import LifecycleState

Stopped = tuple[Slot, Digest, DefinitionId]
"""Slot, digest and id of the definition to which a stop (a kill or ramp-down) applies."""


class RolloutView(msgspec.Struct, frozen=True):
    """All rollouts as of one version of the store; a definition that is not recorded is not served.

    Attributes:
        slots: the rollout of each slot.
        version: the version of the store.
        killed: definitions that were killed at this sidecar, perhaps before the store has the kill. They serve no user.
    """

    slots: Mapping[Slot, SlotRollout] = MappingProxyType({})
    version: int = 0
    killed: frozenset[Digest] = frozenset()


def sharing_flag(slots: Mapping[Slot, SlotRollout], facts: DefinitionFacts) -> tuple[DefinitionFacts, ...]:
    """Return the other definitions that the kill flag of a definition would also kill.

    After a major change, the new definition and the one before can have the same flag.
    """
    # Over all slots: an entry that moves to another slot keeps its id, and with it its flag.
    everything = (each for slot in sorted(slots) for each in slots[slot].definitions.values())
    return tuple(
        each for each in everything if each.killable and each.flag == facts.flag and each.digest != facts.digest
    )


def with_ramps_down(slots: Mapping[Slot, SlotRollout], down: frozenset[Digest]) -> Mapping[Slot, SlotRollout]:
    """Return the rollouts with the definitions of `down` at 0 %; the same object if the slots have none of them."""
    changed = {
        slot: msgspec.structs.replace(
            rollout,
            definitions={
                digest: msgspec.structs.replace(facts, ramp=0) if digest in down else facts
                for digest, facts in rollout.definitions.items()
            },
        )
        for slot, rollout in slots.items()
        # Only affected slots are copied: there may be hundreds of slots, and hardly ever a ramp-down.
        if not down.isdisjoint(rollout.definitions)
    }
    return {**slots, **changed} if changed else slots


def in_their_place(slots: Mapping[Slot, SlotRollout], stopped: Iterable[Stopped]) -> frozenset[Digest]:
    """Return the revisions of definitions that were stopped here and revised in the record in the meantime.

    A minor revision inherits everything. A stop that is not recorded yet applies to the definition, whatever its
    present content is.

    Args:
        slots: the recorded rollouts.
        stopped: slot, digest and id of each stop that is not recorded yet.
    """
    found: dict[Digest, bool] = {}
    for slot, digest, definition_id in stopped:
        rollout = slots.get(slot)
        # The stopped content itself is on record: the stop applies to it by its digest, and to no revision.
        if rollout is None or digest in rollout.definitions:
            continue
        facts = as_revised(rollout, definition_id)
        if facts is not None:
            found[facts.digest] = True
    return frozenset(found)


def revised_by(rollout: SlotRollout, definition_id: DefinitionId, shape: str) -> DefinitionFacts | None:
    """Return the definition that a content with this id and shape revises; None: the content is a new definition."""
    known = [each for each in rollout.of_id(definition_id) if each.shape == shape]
    # The last is the newest: dictionaries keep the order of insertion (see `with_facts`).
    return known[-1] if known else None


def as_revised(rollout: SlotRollout, definition_id: DefinitionId) -> DefinitionFacts | None:
    """Return the present definition with the id of a stopped one whose stopped content no longer exists.

    Of several definitions with that id: the one that serves, otherwise the newest. A definition in `dev` is excluded:
    it has never served a user, so it cannot be the one that was stopped.
    """
    fitting = [each for each in rollout.of_id(definition_id) if each.state is not LifecycleState.DEV]
    serving = [each for each in fitting if each.digest == rollout.active]
    return next(iter(serving or fitting[::-1]), None)
