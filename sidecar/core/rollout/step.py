"""The parts of every rollout step: its actor, its change, and its events.

Each kind of step has its own module (`transitions`, `rollback`, `decommission`); all of them return a change, which
`take_step` writes.
"""

from datetime import datetime

import msgspec

from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.events import AuditCohort, RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.remedies import REMEDY, Remedy
from sidecar.core.rollout.states import LifecycleState, Trigger, moved


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes a step, when and why, with the context that the audit records.

    Attributes:
        actor: the authenticated subject; never a field of a request.
        actor_key: what authenticates the actor: the id of an operator's key, or the URL of an issuer.
        actor_role: the role in which the actor asks; empty: the step was not requested with a token.
        traceparent: the trace in which the step was requested; empty: none.
        definition_version, active_flags: of the configuration and the flags at that time.
    """

    actor: str
    actor_key: str = ""
    actor_role: str = ""
    traceparent: str = ""
    reason: str
    request_id: str
    at: datetime
    definition_version: str = ""
    active_flags: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True):
    """The effect of a step on a rollout; without events nothing has changed and nothing is written."""

    rollout: SlotRollout
    transitions: tuple[TransitionEvent, ...] = ()
    events: tuple[RolloutEvent, ...] = ()


def transition(
    rollout: SlotRollout, facts: DefinitionFacts, target: LifecycleState, trigger: Trigger, by: Actor
) -> Change:
    """Return the change that moves a definition to `target`, with its audit event."""
    # `moved` raises for a move that the lifecycle does not have, so no step can invent one.
    after = msgspec.structs.replace(facts, state=moved(facts.state, target))
    if target is LifecycleState.ROLLBACK:
        after = msgspec.structs.replace(after, ramp=0)  # only `promote` has a ramp; the event keeps the last one
    event = TransitionEvent(
        slot=rollout.slot,
        subagent_id=facts.definition_id,
        digest=facts.digest,
        source_state=facts.state,
        target_state=target,
        trigger=trigger,
        agent_definition_commit=facts.commit,
        cohort=AuditCohort(by.definition_version, by.active_flags, facts.ramp / 100),
        at=by.at,
        actor=by.actor,
        actor_key=by.actor_key,
        actor_role=by.actor_role,
        traceparent=by.traceparent,
        reason=by.reason,
        request_id=by.request_id,
    )
    # One revision for each step, however many parts of the rollout change with it.
    return Change(next_revision(rollout.with_facts(after)), (event,))


def event_about(
    rollout: SlotRollout,
    facts: DefinitionFacts,
    what: RolloutEventKind,
    by: Actor,
    *,
    to: int | None = None,
    detail: str = "",
) -> RolloutEvent:
    """Return a rollout event about a definition.

    Args:
        rollout: of the slot.
        facts: of the definition before the step, whose ramp becomes the event's `before`.
        what: the kind of the event.
        by: actor, reason and time.
        to: the ramp afterwards in basis points; None: the event is not about the ramp.
        detail: in words.
    """
    return RolloutEvent(
        slot=rollout.slot,
        subagent_id=facts.definition_id,
        digest=facts.digest,
        what=what,
        at=by.at,
        actor=by.actor,
        actor_key=by.actor_key,
        actor_role=by.actor_role,
        traceparent=by.traceparent,
        reason=by.reason,
        request_id=by.request_id,
        # Without a ramp both are 0, so that no reader takes the event for a change of the ramp.
        before=facts.ramp if to is not None else 0,
        after=to or 0,
        detail=detail,
    )


def with_events(change: Change, *events: RolloutEvent) -> Change:
    """Return a change with more events."""
    return msgspec.structs.replace(change, events=(*change.events, *events))


def next_revision(rollout: SlotRollout) -> SlotRollout:
    """Return the rollout with its next revision."""
    # Other writers compare revisions: a change that keeps the revision would be overwritten unnoticed.
    return msgspec.structs.replace(rollout, revision=rollout.revision + 1)


def facts_of(rollout: SlotRollout, digest: Digest) -> DefinitionFacts:
    """Return the facts of a definition. Raises `TransitionRefused` if the slot does not have it."""
    facts = rollout.definitions.get(digest)
    if facts is None:
        raise TransitionRefused(f"{rollout.slot} has no definition with that digest", metadata={"digest": digest})
    return facts


def refuse_unless(possible: bool, why: str, remedy: Remedy | None = None) -> None:
    """Raise `TransitionRefused` unless a step is possible; `remedy` is what would help."""
    if not possible:
        raise TransitionRefused(why, metadata={} if remedy is None else {REMEDY: remedy})
