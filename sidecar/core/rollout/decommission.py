"""Decommissions a definition: pure functions from the rollout before a change to the rollout after it.

A decommission has a begin, five steps in order and two decisions. It can be withdrawn as long as no code was deleted.
Any operator can safely repeat each change. `leftovers.py` checks what a step requires of the configuration. The caller
has already checked which turns are still bound to the definition. Source: PF1-FR-6, PF1-D-41 to PF1-D-44, TN-87 to
TN-91.
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.decommission_facts import (
    Choice,
    CleanupStep,
    CodeStatus,
    CompletedStep,
    Decision,
    Decommission,
    Subject,
)
from sidecar.core.rollout.events import AuditCohort, DecommissionMark, RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.remedies import REMEDY, STEP, Remedy
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.core.rollout.step import Actor, Change, event_about, facts_of, next_revision, refuse_unless

ON_THEIR_WORD: Final = frozenset({CleanupStep.MODULES, CleanupStep.EVALS_AND_TOOLS})
"""Steps that the sidecar cannot verify completely: an operator confirms them."""
INSTEAD: Final = {
    LifecycleState.DEV: "it has never served a user; remove its entry from the configuration",
    LifecycleState.TEST: "roll it back first",
    LifecycleState.PROMOTE: "roll it back first, or kill it",
}
"""What an operator does instead of a decommission, or before it, by the state of the definition."""


WATCH: Final = "decommission-watch"
"""The actor of events about a window that has passed, which no operator asked for."""
HAPPENINGS: Final = {
    "begin": RolloutEventKind.DECOMMISSION_BEGUN,
    "decide": RolloutEventKind.DECOMMISSION_DECIDED,
    "undo": RolloutEventKind.DECOMMISSION_UNDONE,
}
"""Kinds of events by `DecommissionMark.step`; the kind for each of the five steps is `DECOMMISSION_STEP`."""


class StepCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The statement that a step is complete.

    Attributes:
        code: what became of the code, as step 3 states it; None for the other steps.
        confirmed: the operator's statement; required for the steps of `ON_THEIR_WORD`.
    """

    step: CleanupStep
    code: CodeStatus | None = None
    confirmed: str = ""


def begin(rollout: SlotRollout, digest: Digest, window: timedelta, by: Actor) -> Change:
    """Begin: the decommission window starts. A decommission that has already begun stays unchanged.

    Raises:
        TransitionRefused: not in `rollback`, or another digest of the same id may still serve; both share the entry.
    """
    facts = facts_of(rollout, digest)
    if facts.decommission is not None:
        return Change(rollout)
    name = facts.definition_id
    if facts.state is not LifecycleState.ROLLBACK:
        raise TransitionRefused(
            f"{name} is in {facts.state}; only what is in rollback is decommissioned: {INSTEAD[facts.state]}",
            metadata={} if facts.state is LifecycleState.DEV else {REMEDY: Remedy.ROLL_BACK},
        )
    alive = (LifecycleState.TEST, LifecycleState.PROMOTE)
    # All contents of an id share one entry in the configuration, which the decommission removes.
    others = [each.digest for each in rollout.of_id(name) if each.digest != digest and each.state in alive]
    refuse_unless(not others, f"{name} has another digest that is not rolled back: {', '.join(others)}")
    record = Decommission(began_at=by.at, due_at=by.at + window, by=by.actor, reason=by.reason)
    said = f"due {record.due_at:%Y-%m-%d}"
    return _recorded(rollout, facts, record, by, step="begin", detail=said)


def complete_step(rollout: SlotRollout, digest: Digest, taking: StepCompletion, by: Actor) -> Change:
    """Complete one step; repeating a step changes nothing. The caller has checked the configuration.

    Raises:
        TransitionRefused: not begun; out of order; no confirmation of what the sidecar cannot verify; step 3 without a
            status of the code, or with `deprecated` after the code was deleted; step 5 before both decisions.
    """
    facts, record = _begun(rollout, digest)
    before = record.taken(taking.step)
    # Step 3 with another status of the code is no repetition.
    if before is not None and before.code is taking.code:
        return Change(rollout)
    _refuse_step(facts, record, taking)
    step = CompletedStep(
        step=taking.step,
        at=by.at,
        by=by.actor,
        reason=by.reason,
        confirmed=taking.confirmed,
        definition_version=by.definition_version,
        code=taking.code,
    )
    # A repeated step replaces its record: step 3 is repeated when deprecated code is deleted. Sorted, because steps
    # after it may be complete already.
    others = (each for each in record.steps if each.step is not taking.step)
    steps = tuple(sorted((*others, step), key=lambda each: each.step.number))
    said = "; ".join(filter(None, (taking.step.label, taking.code, taking.confirmed and f"word: {taking.confirmed}")))
    after = msgspec.structs.replace(record, steps=steps)
    return _recorded(rollout, facts, after, by, step=taking.step.value, detail=said)


def decide(rollout: SlotRollout, digest: Digest, matter: Subject, choice: Choice, by: Actor) -> Change:
    """Record the decision about the eval suite or the tools; repeating a decision changes nothing. Source: PF1-D-42.

    Raises:
        TransitionRefused: not begun, or step 5 has already carried out a different decision.
    """
    facts, record = _begun(rollout, digest)
    before = record.decided(matter)
    # The same choice again keeps the first operator and time.
    if before is not None and before.choice is choice:
        return Change(rollout)
    done = record.taken(CleanupStep.EVALS_AND_TOOLS)
    refuse_unless(done is None, f"step 5 has been taken: the decision on {matter} is carried out")
    decided = Decision(choice=choice, at=by.at, by=by.actor, reason=by.reason)
    # The values of `Subject` are the names of the two fields.
    after = msgspec.structs.replace(record, **{matter.value: decided})
    said = f"{matter}: {choice}" + ("" if before is None else f", was {before.choice}")
    return _recorded(rollout, facts, after, by, step="decide", detail=said)


def undo(rollout: SlotRollout, digest: Digest, by: Actor) -> Change:
    """Undo a decommission; the definition stays in `rollback`. Source: PF1-D-44, TN-91.

    An undo states that the definition is complete again, so it is refused once code or prompt blocks are deleted.

    Raises:
        TransitionRefused: not begun, or code or prompt blocks are already deleted.
    """
    facts, record = _begun(rollout, digest)
    name = facts.definition_id
    refuse_unless(not record.code_gone, f"the code of {name} is deleted (step 3): its decommission cannot be undone")
    kept = record.taken(CleanupStep.BLOCKS) is None
    refuse_unless(kept, f"the prompt blocks of {name} are deleted (step 4): its decommission cannot be undone")
    said = f"{len(record.steps)} of {len(CleanupStep)} steps were taken"
    return _recorded(rollout, facts, None, by, step="undo", detail=said)


def window_passed(
    rollout: SlotRollout, facts: DefinitionFacts, record: Decommission, at: datetime, detail: str
) -> RolloutEvent:
    """Return the event that the window of a decommission has passed. Its `request_id` identifies the decommission.

    The end of the window is a part of the id, because a decommission that was undone can begin again. No operator can
    use that id: ids of requests contain no space.
    """
    by = Actor(
        actor=WATCH,
        reason="the window has passed",
        # The same for every sidecar: the store keeps one event for each id, so the audit gets one row and not one for
        # each.
        request_id=f"decommission-overdue {facts.digest} {record.due_at.timestamp():.0f}",
        at=at,
    )
    return event_about(rollout, facts, RolloutEventKind.DECOMMISSION_OVERDUE, by, detail=detail)


def _begun(rollout: SlotRollout, digest: Digest) -> tuple[DefinitionFacts, Decommission]:
    facts = facts_of(rollout, digest)
    if facts.decommission is None:
        raise TransitionRefused(
            f"the decommission of {facts.definition_id} has not begun", metadata={REMEDY: Remedy.BEGIN_DECOMMISSION}
        )
    return facts, facts.decommission


def _refuse_step(facts: DefinitionFacts, record: Decommission, taking: StepCompletion) -> None:
    step, name, following = taking.step, facts.definition_id, record.next_step
    if record.taken(step) is None and following is not step:
        expected = "all are taken" if following is None else f"step {following.label} is next"
        metadata = {} if following is None else {REMEDY: Remedy.DECOMMISSION_STEP, STEP: str(following.number)}
        raise TransitionRefused(f"step {step.label} of {name} is out of order: {expected}", metadata=metadata)
    refuse_unless(
        not (step is CleanupStep.MODULES and taking.code is None), "step 3 must state whether the code is deleted"
    )
    refuse_unless(step is CleanupStep.MODULES or taking.code is None, "only step 3 states whether the code is deleted")
    deleted = record.code_gone and taking.code is CodeStatus.DEPRECATED
    # The record must not claim code that an undo would need and that no longer exists.
    refuse_unless(not deleted, f"the code of {name} is deleted already; it cannot be deprecated any more")
    vouched = step not in ON_THEIR_WORD or bool(taking.confirmed.strip())
    refuse_unless(vouched, f"the sidecar cannot check step {step.label}: confirm in words what was checked, and where")
    if step is CleanupStep.EVALS_AND_TOOLS:
        waiting = " and ".join(record.undecided)
        said = f"no decision yet about the {waiting} of {name}: retain or remove"
        refuse_unless(not waiting, said, Remedy.DECIDE)


def _recorded(
    rollout: SlotRollout,
    facts: DefinitionFacts,
    record: Decommission | None,
    by: Actor,
    *,
    step: str,
    detail: str,
) -> Change:
    """Return the change with its one audit event, which carries the fields of PF1-FR-10. Source: PF1-D-43, TN-87."""
    # After an undo the definition must count as not being decommissioned: it can be revised, and begun again.
    began_at = None if record is None else record.began_at
    after = msgspec.structs.replace(facts, decommission=record, decommission_began_at=began_at)
    mark = DecommissionMark(
        step=step,
        trigger=Trigger.OPERATOR,
        agent_definition_commit=facts.commit,
        cohort=AuditCohort(by.definition_version, by.active_flags, facts.ramp / 100),
    )
    event = event_about(
        rollout, facts, HAPPENINGS.get(step, RolloutEventKind.DECOMMISSION_STEP), by, to=facts.ramp, detail=detail
    )
    return Change(next_revision(rollout.with_facts(after)), (), (msgspec.structs.replace(event, decommission=mark),))
