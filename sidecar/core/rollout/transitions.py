"""Every step of a rollout, as a pure function from the rollout before to the rollout after.

The functions decide whether a step is possible, and which gates it needs; gates, policies and flags are checked
elsewhere. No clock is read, and no step triggers another (PF1-D-4).
"""

from datetime import datetime

import msgspec

from sidecar.core.definitions.files.names import SUBAGENT_FLAG_PREFIX
from sidecar.core.errors import RoleRequired, TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.roles import Role
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import RENEWED_SALT, RolloutEventKind
from sidecar.core.rollout.facts import Breach, DefinitionFacts, FlagPair, Override, SlotRollout, Tombstone
from sidecar.core.rollout.remedies import REMEDY, Remedy
from sidecar.core.rollout.states import LifecycleState, Trigger, moved
from sidecar.core.rollout.step import (
    Actor,
    Change,
    event_about,
    facts_of,
    next_revision,
    refuse_unless,
    transition,
    with_events,
)

PRE_MERGE = "pre_merge"
PRE_RAMP = "pre_ramp"
PRE_FULL = "pre_full"
BEFORE = {
    LifecycleState.DEV: Remedy.PROMOTE,
    LifecycleState.TEST: Remedy.PROMOTE,
    LifecycleState.ROLLBACK: Remedy.NEW_DEFINITION,
}
"""The remedy in the refusal of a step that needs the state `promote`, by the definition's present state."""


def to_test(rollout: SlotRollout, digest: Digest, by: Actor) -> Change:
    """`dev` to `test`: developer-driven, no platform gate. Source: PF1-D-5."""
    facts = facts_of(rollout, digest)
    return transition(rollout, facts, LifecycleState.TEST, Trigger.OPERATOR, by)


def promote(rollout: SlotRollout, digest: Digest, by: Actor) -> Change:
    """`test` to `promote`, at 0 %, not active; its two flags are created off. The gate `pre_merge` has passed.

    Raises:
        TransitionRefused: the definition is not in `test`, or names no flag (PF1-FR-3a).
    """
    facts = facts_of(rollout, digest)
    moved(facts.state, LifecycleState.PROMOTE)  # only for its refusal; `transition` below moves
    if facts.flag is None:
        raise TransitionRefused(
            f"{facts.definition_id} names no `enabled_via_flag`; a new definition is promoted behind its flags only: "
            f"add `enabled_via_flag: {SUBAGENT_FLAG_PREFIX}{facts.definition_id}` to its entry"
        )
    created = msgspec.structs.replace(facts, ramp=0, flags=FlagPair.CREATED, overrides=_unused(facts, 0))
    change = transition(rollout, created, LifecycleState.PROMOTE, Trigger.GATE, by)
    return with_events(change, event_about(rollout, created, RolloutEventKind.FLAGS_CREATED, by))


def gates_of_step(facts: DefinitionFacts, to: int) -> tuple[str, ...]:
    """Return the gates of a step to `to` basis points: none to lower, otherwise by the new ramp. Source: TN-73."""
    # Lowering must always be possible at once, also while every gate is down.
    if to <= facts.ramp:
        return ()
    needed = [PRE_FULL if to == WHOLE else PRE_RAMP]
    if facts.breach is not None and PRE_RAMP not in needed:
        needed.insert(0, PRE_RAMP)  # after a breach this gate must pass again, at any ramp
    return tuple(needed)


def set_ramp(rollout: SlotRollout, digest: Digest, to: int, by: Actor) -> Change:
    """Set a ramp; the gates of the step have passed. The first non-zero step makes the definition active.

    The first raise switches the flags on; so does the first raise after a revision that named flags in `promote`. Only
    an operator may raise a ramp; every role that may call the step may lower it. Source: PF1-D-64.

    Raises:
        RoleRequired: a raise by any other role.
        TransitionRefused: not in `promote`; inactive although it was active before; a first step to 100 %; a step that
            is not on the declared curve; an open breach that is not acknowledged.
    """
    facts = facts_of(rollout, digest)
    refuse_unless(0 <= to <= WHOLE, f"a ramp is 0 to {WHOLE} basis points, not {to}")
    promoted = facts.state is LifecycleState.PROMOTE
    refuse_unless(promoted, f"{facts.definition_id} is in {facts.state}; only `promote` ramps", BEFORE.get(facts.state))
    # A repetition changes nothing and needs no role: it is safe to send a step again.
    if to == facts.ramp:
        return Change(rollout)
    first = facts.activated_at is None
    # Only the first raise of a definition replaces the active one; a replaced one returns by `activate` or a rollback.
    if rollout.active != digest and not first:
        raise TransitionRefused(
            f"{facts.definition_id} is not active in {rollout.slot}; activate it, or roll back to it"
        )
    stepped, raised = msgspec.structs.replace(facts, ramp=to), to > facts.ramp
    if raised:
        _refuse_other_role(by)
        _refuse_raise(rollout, facts, to, first=first)
        stepped = msgspec.structs.replace(stepped, breach=None, overrides=_unused(facts, to))
    events = [event_about(rollout, facts, RolloutEventKind.RAMP_SET, by, to=to)]
    if first:
        stepped = _first_active(rollout, stepped, by.at)
        what = [RolloutEventKind.FLAGS_ON] if facts.flag else []
        events += [event_about(rollout, stepped, each, by) for each in what]
        salt = rollout.salt_of_first_step(digest)
        renewed = "" if salt == rollout.salt else f"{RENEWED_SALT}{salt}"
        events.append(event_about(rollout, stepped, RolloutEventKind.ACTIVATED, by, detail=renewed))
        rollout = msgspec.structs.replace(rollout, active=digest, salt=salt)
    elif raised and facts.flags is FlagPair.NAMED:
        stepped = msgspec.structs.replace(stepped, flags=FlagPair.ON, confirmed_on=str(facts.flag), confirmed_at=by.at)
        events.append(event_about(rollout, stepped, RolloutEventKind.FLAGS_ON, by))
    return Change(next_revision(rollout.with_facts(stepped)), (), tuple(events))


def ramp_down(rollout: SlotRollout, digest: Digest, breach_id: str, by: Actor) -> Change:
    """Set the ramp to 0 and record the breach of a safety limit that is the reason; needs no gate. Source: PF1-D-31."""
    facts = facts_of(rollout, digest)
    refuse_unless(facts.state is LifecycleState.PROMOTE, f"{facts.definition_id} is in {facts.state}; there is no ramp")
    # A repeated report must not undo the acknowledgement that an operator may have given since.
    if facts.breach is not None and facts.breach.breach_id == breach_id and facts.ramp == 0:
        return Change(rollout)
    down = msgspec.structs.replace(facts, ramp=0, breach=Breach(breach_id, by.at, by.reason))
    event = event_about(rollout, facts, RolloutEventKind.RAMPED_DOWN, by, to=0, detail=breach_id)
    return Change(next_revision(rollout.with_facts(down)), (), (event,))


def acknowledge(rollout: SlotRollout, digest: Digest, breach_id: str, by: Actor) -> Change:
    """Acknowledge a breach, which the next non-zero step requires. Raises `TransitionRefused` if it is not open."""
    facts = facts_of(rollout, digest)
    breach = facts.breach
    if breach is None:
        raise TransitionRefused(f"{facts.definition_id} has no open breach: there is nothing to acknowledge")
    named = f"{facts.definition_id} has the open breach {breach.breach_id!r}, not {breach_id[:64]!r}"
    refuse_unless(breach.breach_id == breach_id, named)
    if breach.acknowledged_by:  # the first operator stays on record
        return Change(rollout)
    noted = msgspec.structs.replace(facts, breach=msgspec.structs.replace(breach, acknowledged_by=by.actor))
    return Change(
        next_revision(rollout.with_facts(noted)),
        (),
        (event_about(rollout, noted, RolloutEventKind.BREACH_ACKNOWLEDGED, by, detail=breach_id),),
    )


def activate(rollout: SlotRollout, digest: Digest, by: Actor) -> Change:
    """Make a definition in `promote` active again in an empty slot, at its own last ramp.

    Raises:
        TransitionRefused: the slot is not empty, or the definition is in another state, killed, or was never active.
    """
    facts = facts_of(rollout, digest)
    refuse_unless(rollout.active is None, f"{rollout.slot} is not empty; roll its active definition back first")
    usable = facts.state is LifecycleState.PROMOTE and facts.killed is None and facts.activated_at is not None
    why = f"{facts.definition_id} is in {facts.state} and cannot serve; only one that was active in `promote` can"
    refuse_unless(usable, why, BEFORE.get(facts.state))
    back = msgspec.structs.replace(rollout, active=digest)
    event = event_about(back, facts, RolloutEventKind.ACTIVATED, by, to=facts.ramp)
    return Change(next_revision(back), (), (event,))


def kill(rollout: SlotRollout, digest: Digest, by: Actor, *, flag_exists: bool = False) -> Change:
    """Withdraw a definition from every surface, for all users; the slot stays empty.

    A definition that is already in `rollback` does not change. Source: PF1-FR-9, TN-60, TN-54, TN-55.

    Args:
        rollout: of the slot.
        digest: which definition.
        by: who asks, and why.
        flag_exists: the flag backend has the kill flag of the definition, regardless of who created the flag.

    Raises:
        TransitionRefused: it is in `dev`; in `test`, and its kill flag was never created; or being decommissioned.
    """
    facts = facts_of(rollout, digest)
    # Before the check for `rollback`: a definition that is being decommissioned is in `rollback` as well, and the
    # operator should learn that.
    refuse_kill(facts, flag_exists=flag_exists)
    if facts.state is LifecycleState.ROLLBACK:
        return Change(rollout)
    dead = msgspec.structs.replace(facts, killed=Tombstone(by.at, by.actor, by.reason))
    if rollout.active == digest:
        rollout = msgspec.structs.replace(rollout, active=None)
    change = transition(rollout, dead, LifecycleState.ROLLBACK, Trigger.KILL_SWITCH, by)
    return with_events(change, event_about(rollout, dead, RolloutEventKind.KILLED, by))


def refuse_kill(facts: DefinitionFacts, *, flag_exists: bool) -> None:
    """Raise `TransitionRefused` if a kill of a definition is refused; arguments as of `kill`."""
    begun = facts.decommission_began_at is not None
    refuse_unless(not begun, f"{facts.definition_id} is being decommissioned: it serves no user")
    refuse_unless(facts.state is not LifecycleState.DEV, f"{facts.definition_id} is in dev: it serves no user")
    refuse_unless(
        facts.state is not LifecycleState.TEST or flag_exists or _flags_created(facts),
        f"{facts.definition_id} is in test, and its kill flag {facts.flag} was never created, or cannot be seen;"
        " it serves no user: roll it back, which needs no flag",
    )


def may_be_killed(facts: DefinitionFacts, *, flag_exists: bool = False) -> bool:
    """Return whether a kill would change anything, and is not refused; arguments as of `kill`."""
    created = flag_exists or _flags_created(facts)
    return facts.state is LifecycleState.PROMOTE or (facts.state is LifecycleState.TEST and created)


def _flags_created(facts: DefinitionFacts) -> bool:
    return facts.flags not in {FlagPair.NONE, FlagPair.NAMED}


def override(rollout: SlotRollout, digest: Digest, by: Actor, *, gate: str, to: int, expires_at: datetime) -> Change:
    """Permit one `fail` of one gate for the step to a ramp, once, until it expires. Source: PF1-FR-4c.

    Args:
        rollout: of the slot.
        digest: the definition.
        by: actor and reason.
        gate: the gate whose `fail` is permitted.
        to: ramp of the step in basis points.
        expires_at: end of the permission.

    Raises:
        TransitionRefused: the step does not need that gate, the state has no such step, or the override has expired.
    """
    facts = facts_of(rollout, digest)
    steps = {LifecycleState.TEST: (PRE_MERGE,), LifecycleState.PROMOTE: gates_of_step(facts, to)}
    needed = steps.get(facts.state, ())
    refuse_unless(
        gate in needed, f"the step to {to / 100:g} % does not need {gate}; it needs: {', '.join(needed) or 'none'}"
    )
    refuse_unless(by.at < expires_at, "the override has expired already; set a later time")
    kept = tuple(each for each in facts.overrides if by.at < each.expires_at)  # nothing else removes expired ones
    granted = Override(gate, facts.ramp, to, by.actor, by.reason, expires_at)  # void once the ramp changes
    passing = msgspec.structs.replace(facts, overrides=(*kept, granted))
    event = event_about(rollout, facts, RolloutEventKind.GATE_OVERRIDDEN, by, to=to, detail=gate)
    return Change(next_revision(rollout.with_facts(passing)), (), (event,))


def retire_flags(rollout: SlotRollout, digest: Digest, by: Actor) -> Change:
    """Retire the flags of a definition that serves all users. Raises `TransitionRefused`. Source: PF1-D-35, TN-59."""
    facts = facts_of(rollout, digest)
    if facts.flags is FlagPair.RETIRED:
        return Change(rollout)
    whole = rollout.active == digest and facts.ramp == WHOLE
    refuse_unless(whole, f"{facts.definition_id} does not serve all users; its flags are still needed")
    # If the entry no longer names the flag, the definition forgets it. A flag that is named later gates anew.
    still_named = None if facts.flag_dropped else facts.flag
    retired = msgspec.structs.replace(facts, flags=FlagPair.RETIRED, flag=still_named, flag_dropped=False)
    return Change(
        next_revision(rollout.with_facts(retired)),
        (),
        (event_about(rollout, retired, RolloutEventKind.FLAGS_RETIRED, by),),
    )


def _first_active(rollout: SlotRollout, facts: DefinitionFacts, at: datetime) -> DefinitionFacts:
    """Return the facts of a newly active definition: the replaced one is its target, and its flags are on."""
    return msgspec.structs.replace(
        facts,
        activated_at=at,
        flags=FlagPair.ON if facts.flag else facts.flags,
        # `FlagSwitching.confirmed` adds the backend, which only the caller knows.
        confirmed_on=facts.flag or "",
        confirmed_at=at if facts.flag else None,
        target=rollout.active,
        target_recorded=True,
    )


def _unused(facts: DefinitionFacts, to: int) -> tuple[Override, ...]:
    """Return the overrides that remain after the step to the ramp `to`, without those that permitted this step."""
    return tuple(each for each in facts.overrides if (each.from_ramp, each.to_ramp) != (facts.ramp, to))


def _refuse_other_role(by: Actor) -> None:
    if by.actor_role != Role.OPERATOR:
        raise RoleRequired(
            f"the role {by.actor_role or '(none)'} may lower a ramp, not raise it; a raise needs: {Role.OPERATOR}",
            metadata={"cause": "role", "roles": Role.OPERATOR},
        )


def _refuse_raise(rollout: SlotRollout, facts: DefinitionFacts, to: int, *, first: bool) -> None:
    name = facts.definition_id
    refuse_unless(not (first and to == WHOLE), f"the first step of {name} must be below 100 %", Remedy.FIRST_RAMP)
    if facts.breach is not None and not facts.breach.acknowledged_by:
        raise TransitionRefused(
            f"{name} was ramped down by breach {facts.breach.breach_id}; acknowledge it before the next step",
            metadata={"breach_id": facts.breach.breach_id, REMEDY: Remedy.ACKNOWLEDGE},
        )
    steps = ", ".join(f"{each / 100:g} %" for each in rollout.curve)
    declared = not rollout.curve or to in rollout.curve
    said = f"{to / 100:g} % is not a declared step of {name}; its curve is: {steps}"
    refuse_unless(declared, said, Remedy.DECLARED_RAMP)
