"""Rolls a definition back and selects its replacement.

Pure: `take_step` writes the result, and `serving` then selects the replacement for all later binds.

Source: PF1-D-22 to PF1-D-24, PF1-FR-7b, TN-63, TN-65.
"""

from collections.abc import Iterator

import msgspec

from sidecar.core.errors import RevisionConflict, TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.remedies import CHOICES, NO_DEFINITION, REMEDY, Remedy
from sidecar.core.rollout.states import LifecycleState, Trigger, moved
from sidecar.core.rollout.step import Actor, Change, event_about, facts_of, refuse_unless, transition, with_events


class Successor(msgspec.Struct, frozen=True):
    """The definition that an operator named to serve instead of the recorded target.

    With `digest` None, the slot stays empty.
    """

    digest: Digest | None = None


def roll_back(rollout: SlotRollout, digest: Digest, by: Actor, named: Successor | None = None) -> Change:
    """Move a definition to `rollback`.

    If it was active, the named successor or the recorded target becomes active again.

    The successor serves at its own last ramp, and makes no transition.

    Args:
        rollout: of the slot.
        digest: the definition to roll back.
        by: actor and reason.
        named: replaces the recorded target; None: the recorded target.

    Raises:
        TransitionRefused: the definition is in `dev` or in `rollback`; the successor cannot serve; or a successor is
            named for a definition that is not active.
        RevisionConflict: the slot does not have the named successor (any more).
    """
    facts = facts_of(rollout, digest)
    # For its refusal only; `transition` below moves the definition.
    moved(facts.state, LifecycleState.ROLLBACK)
    target = successor_of(rollout, facts, named)
    instead = "" if named is None or named.digest == facts.target else f"instead of {_recorded(rollout, facts)}"
    # The target becomes active without a transition of its own: it has been in `promote` all the time.
    if rollout.active == digest:
        rollout = msgspec.structs.replace(rollout, active=target.digest if target else None)
    change = transition(rollout, facts, LifecycleState.ROLLBACK, Trigger.OPERATOR, by)
    if target is not None:
        return with_events(change, event_about(rollout, target, RolloutEventKind.ACTIVATED, by, detail=instead))
    emptied = event_about(rollout, facts, RolloutEventKind.SLOT_EMPTIED, by, detail=instead)
    # If no target was recorded, the transition implies an empty slot. The event records an operator's choice.
    return with_events(change, emptied) if instead else change


def successor_of(rollout: SlotRollout, facts: DefinitionFacts, named: Successor | None) -> DefinitionFacts | None:
    """Return the definition that replaces a rolled-back one; None: the slot stays empty. Raises as `roll_back`."""
    active = rollout.active == facts.digest
    # A successor for a definition that does not serve would change who serves, without the gates of a ramp.
    refuse_unless(
        active or named is None,
        f"{facts.definition_id} is not active in {rollout.slot}, so nothing replaces it: roll it back without naming"
        " a target",
    )
    digest = facts.target if named is None else named.digest
    if not active or digest is None:
        return None
    # Checked in any case, also for a recorded target: it may have been killed since it was recorded.
    target = rollout.definitions.get(digest)
    if target is None and named is not None:
        raise RevisionConflict(
            # Cut, because the text comes from a request.
            f"{rollout.slot} has no definition with the digest {digest[:80]!r} (any more), at revision"
            f" {rollout.revision}: read again",
            metadata={"revision": str(rollout.revision), "slot": rollout.slot},
        )
    why = "it is not on record any more" if target is None else _why_not(target)
    # Without this check a rollback could name the definition itself, and it would serve in `rollback`.
    if digest == facts.digest:
        why = "it is the one that is rolled back"
    if target is None or why:
        raise cannot_succeed(rollout, facts, digest, why)
    return target


def cannot_succeed(rollout: SlotRollout, facts: DefinitionFacts, digest: Digest, why: str) -> TransitionRefused:
    """Return the refusal of a successor that cannot serve; it names the definitions that can."""
    who = _recorded(rollout, facts) if digest == facts.target else _name(rollout, digest)
    others = [each for each in _may_succeed(rollout) if each.digest not in {facts.digest, digest}]
    could = ", ".join(_name(rollout, each.digest) for each in others) or "no other definition of the slot"
    return TransitionRefused(
        f"{who} cannot take the place of {facts.definition_id}: {why}; name another target, or none. It could be:"
        f" {could}",
        metadata={
            REMEDY: Remedy.NAME_TARGET,
            # Ids without repetition: operators name ids, and several digests can have one id.
            CHOICES: "|".join([*dict.fromkeys(each.definition_id for each in others), NO_DEFINITION]),
        },
    )


def _may_succeed(rollout: SlotRollout) -> Iterator[DefinitionFacts]:
    return (each for each in rollout.definitions.values() if not _why_not(each))


def _why_not(facts: DefinitionFacts) -> str:
    """Return why a definition cannot serve again; empty: it can."""
    if facts.killed is not None:
        return "it was killed"
    if facts.decommission_began_at is not None:
        return "it is being decommissioned"
    if facts.state is not LifecycleState.PROMOTE:
        return f"it is in {facts.state}"
    # Without a first ramp step, no gate has ever let it serve users.
    return "" if facts.activated_at is not None else "it was never active"


def _recorded(rollout: SlotRollout, facts: DefinitionFacts) -> str:
    return "no target, as recorded" if facts.target is None else f"the recorded target {_name(rollout, facts.target)}"


def _name(rollout: SlotRollout, digest: Digest) -> str:
    known = rollout.definitions.get(digest)
    return f"{known.definition_id} ({digest})" if known is not None else digest
