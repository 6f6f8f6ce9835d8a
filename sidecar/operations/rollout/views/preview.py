"""Counts the recent users that a proposed ramp would add and remove. Only the counts are returned.

Source: PF1-D-66, DESIGN section 4.
"""

from collections.abc import Callable, Iterable

import msgspec

from sidecar.core.errors import TransitionRefused, UnknownDefinition
from sidecar.core.identifiers import DefinitionId, Digest
from sidecar.core.rollout.bucketing import in_ramp
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.transitions import gates_of_step
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.operations.rollout.views.rollout_reading import find_rollout

Inside = Callable[[str, str, int], bool]
"""Returns whether a user is inside a ramp. Called with the salt, the user and the ramp in basis points."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a step, in numbers of users who were recently seen here.

    Attributes:
        before, after: the ramp before and after the step, in basis points.
        known: all users who were recently seen.
        inside: those of them who are inside the ramp before the step.
        joining, leaving: those whom the step adds to the ramp and removes from it.
        gates: the platform's gates that the step needs.
    """

    definition_id: str
    digest: str
    before: int
    after: int
    known: int
    inside: int
    joining: int
    leaving: int
    gates: tuple[str, ...]


class PreviewRamp(msgspec.Struct, frozen=True):
    """The operation behind `PreviewRamp`. Changes nothing.

    Attributes:
        store: of the rollouts.
        keys: returns the user of each turn that is known here; a user may occur repeatedly.
        inside: decides whether a user is inside a ramp; a parameter, so that tests can replace the bucketing.
    """

    store: RolloutStore
    keys: Callable[[], Iterable[str]]
    inside: Inside = in_ramp

    async def __call__(self, name: str, digest: str, to: int) -> Preview:
        """Count the users whom a ramp step would affect.

        Args:
            name: id of a definition, or a slot.
            digest: of the definition; empty: as `definition_meant` finds it.
            to: basis points.

        Raises:
            UnknownDefinition: the name is unknown, or no definition is active.
            TransitionRefused: the raise would take the sub-agent away from some users.
            StoreUnavailable: the store did not answer.
        """
        rollout = await find_rollout(self.store, name)
        facts = rollout.definitions.get(Digest(digest)) if digest else definition_meant(rollout, name)
        if facts is None:
            raise UnknownDefinition(f"{rollout.slot} has no such definition; nothing is active, or the digest is wrong")
        # Each user once, whatever the number of turns.
        keys = dict.fromkeys(key for key in self.keys() if key)
        # Before its first step, the definition has no buckets yet: the step would give the slot this salt.
        salt = rollout.salt if facts.activated_at else rollout.salt_of_first_step(facts.digest)
        inside_before = {key: self.inside(salt, key, facts.ramp) for key in keys}
        inside_after = {key: self.inside(salt, key, to) for key in keys}
        joining = sum(1 for key in keys if inside_after[key] and not inside_before[key])
        leaving = sum(1 for key in keys if inside_before[key] and not inside_after[key])
        # A hash of user and salt places each user at a fixed bucket, so a raise can only add users. If it does not,
        # operators must know before the step.
        if to > facts.ramp and leaving:
            raise TransitionRefused(
                f"raising the ramp to {to / 100:g} % would take {facts.definition_id} from {leaving} of {len(keys)}"
                " users: this is a defect of the bucketing; report it"
            )
        return Preview(
            definition_id=facts.definition_id,
            digest=facts.digest,
            before=facts.ramp,
            after=to,
            known=len(keys),
            inside=sum(inside_before.values()),
            joining=joining,
            leaving=leaving,
            gates=gates_of_step(facts, to),
        )


def definition_meant(rollout: SlotRollout, name: str) -> DefinitionFacts | None:
    """Return the definition whose ramp is meant: for a slot the active one, for an id its active or newest digest."""
    fitting = rollout.of_id(DefinitionId(name))
    active = [facts for facts in fitting if facts.digest == rollout.active]
    if fitting:
        return (active or fitting)[-1]
    return rollout.definitions.get(rollout.active) if rollout.active else None
