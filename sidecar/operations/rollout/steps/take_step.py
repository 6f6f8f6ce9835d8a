"""Take one step of a rollout: asked once, answered once, on record before it acts.

Order: what an earlier request with the same id was answered; the revision; the proofs; the policies; the gates; then,
as one transaction, the change, its audit and the answer. A refused or held request keeps its answer, too. `Kill`,
`RampDown` and `RollBack` wait for no gate and no policy; kills act before they are on record (`kills.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sidecar.core.errors import (
    GateFailed,
    GateHeld,
    PolicyDenied,
    RevisionConflict,
    StoreUnavailable,
    SubagentsError,
    TransitionRefused,
)
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.events import Happening, RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.step import By, Change
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.answers import DONE, answered_before, asker_of, is_done, mark_of, stored_answer
from sidecar.operations.rollout.audit_context import Surrounding, by_of
from sidecar.operations.rollout.decommission.decommission_steps import Decommissioning
from sidecar.operations.rollout.definition_lookup import Found, found_as_revised, found_in, not_found
from sidecar.operations.rollout.requests import (
    HELD,
    Asked,
    OfDecommission,
    OverrideGate,
    RampDown,
    RetireFlags,
    RollBack,
    SetRamp,
    StepAnswer,
)
from sidecar.operations.rollout.steps.content_proofs import Proofs
from sidecar.operations.rollout.steps.gate_checks import Gatekeeper
from sidecar.operations.rollout.steps.policy_checks import Policies
from sidecar.operations.rollout.steps.step_changes import asked_of_policies, changed, gates_of
from sidecar.operations.rollout.steps.step_flags import FlagSwitching, still_named
from sidecar.operations.rollout.store.ports import RolloutStore, RolloutWrite, StoredAnswer
from sidecar.policy.lifecycle import PLATFORM_POLICY_VERSION, GateQuestion

ASKED_GATES = (Happening.RAMP_SET, Happening.FLAGS_CREATED, Happening.CONFIGURED)
"""Events of steps that gates are asked about."""
TRIES = 5
"""How often a step in the safe direction is laid out anew because somebody else wrote first."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """What taking steps needs."""

    store: RolloutStore
    proofs: Proofs
    gates: Gatekeeper
    policies: Policies
    flags: FlagSwitching
    clock: Clock
    surrounding: Callable[[], Surrounding]
    decommissioning: Decommissioning


class TakeStep:
    """The operation behind every step but `Kill`."""

    def __init__(self, parts: StepParts) -> None:
        """Join the parts."""
        self._parts = parts

    async def __call__(self, asked: Asked, actor: str, *, late: Digest | None = None) -> StepAnswer:
        """Take a step, or answer as before.

        Args:
            asked: what is wanted.
            actor: the authenticated subject.
            late: a step in the safe direction that was answered before as held for this definition: neither a revision
                nor a request id that was used stops it any more.

        Raises:
            RequestIdReused, RevisionConflict, TransitionRefused, PolicyDenied, GateFailed, GateHeld, UnknownSubagent,
            StoreUnavailable.
        """
        conflict = RevisionConflict(f"{asked.definition_id} is changed all the time; ask again")
        meant = asked if late is None else msgspec.structs.replace(asked, digest=late, expected_revision=None)
        for _ in range(TRIES if isinstance(asked, RampDown | RollBack) and meant.expected_revision is None else 1):
            earlier, own = await self._earlier(asked, late, actor)
            if earlier is not None:
                return answered_before(earlier, own, actor)
            try:
                rollout, facts = await self._found(meant)
                return await self._take(own, rollout, facts, actor)
            except RevisionConflict as other:
                conflict = other
        # Somebody else was first: perhaps another attempt of this very request, here or at another replica.
        earlier, own = await self._earlier(asked, late, actor)
        if earlier is not None:
            return answered_before(earlier, own, actor)
        if late is not None:
            raise StoreUnavailable(conflict.message)  # what was answered is not refused by a race
        raise conflict

    async def _earlier(self, asked: Asked, late: Digest | None, actor: str) -> tuple[StoredAnswer | None, Asked]:
        """Return what a request was answered, and the request: a late one whose id was used has another id."""
        earlier = await self._parts.store.answer(asked.request_id)
        if late is None or earlier is None or is_done(earlier, asked, actor):
            return earlier, asked
        own = msgspec.structs.replace(asked, request_id=f"{asked.request_id}{HELD}")
        earlier = await self._parts.store.answer(own.request_id)
        if earlier is not None and earlier.asker != asker_of(asked, actor):  # each of them was answered
            own = msgspec.structs.replace(own, request_id=f"{own.request_id}/{mark_of(asked, actor)}")
            earlier = await self._parts.store.answer(own.request_id)
        return earlier, own

    async def _found(self, asked: Asked) -> Found:
        slots = {each.slot: each for each in await self._parts.store.rollouts()}
        found = found_in(slots, asked)
        if found is None and isinstance(asked, RampDown):
            found = found_as_revised(slots, asked)  # it may have held here for long
        if found is None:
            raise not_found(slots, asked)
        self._refuse_other_revision(asked, found[0])
        return found

    def _refuse_other_revision(self, asked: Asked, rollout: SlotRollout) -> None:
        if asked.expected_revision not in {None, rollout.revision}:
            raise RevisionConflict(
                f"the rollout of {rollout.slot} has revision {rollout.revision}, not {asked.expected_revision}",
                metadata={"revision": str(rollout.revision), "slot": rollout.slot},
            )

    async def _take(self, asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, actor: str) -> StepAnswer:
        by = by_of(asked, actor, self._parts.clock.now(), self._parts.surrounding())
        try:
            change = await self._laid_out(asked, rollout, facts, by)
            await self._parts.proofs.prove(asked, rollout, facts)
            said = await self._asked_all(asked, rollout, facts, actor)
            await self._parts.flags.check(change, facts)  # as late as can be: a flag may be switched meanwhile
        except (TransitionRefused, PolicyDenied, GateFailed, GateHeld) as refused:
            await self._keep_refusal(asked, rollout, facts, by, refused)
            raise
        change = _with_words(change, said)
        warnings = await self._parts.flags.unserved(change, facts)
        if asked.dry_run:
            return _answer(asked, change.rollout, facts.digest, said, warnings)
        edits = await self._parts.flags.prepare(change, facts, actor)
        if edits:
            return msgspec.structs.replace(_answer(asked, rollout, facts.digest, said), edits=edits)
        change = self._parts.flags.confirmed(change, facts)
        answer = _answer(asked, change.rollout, facts.digest, said, warnings)
        answer = msgspec.structs.replace(answer, changed=change.rollout is not rollout)
        kept = stored_answer(asked, DONE, msgspec.json.encode(answer).decode(), by)
        await self._parts.store.write(_write(rollout, change, kept))
        return msgspec.structs.replace(answer, version=await self._parts.store.version())

    async def _laid_out(self, asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, by: By) -> Change:
        """Return what the rules make of it; what they refuse, nobody else is asked about."""
        if isinstance(asked, OfDecommission):
            return await self._parts.decommissioning.changed(asked, rollout, facts, by)
        return changed(asked, rollout, facts, by)

    async def _asked_all(
        self, asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, actor: str
    ) -> tuple[str, ...]:
        """Ask the policies, then the gates of the step and those that a policy added."""
        step = asked_of_policies(asked, rollout)
        to = asked.to if isinstance(asked, SetRamp | OverrideGate) else facts.ramp
        if step is None:
            return ()
        more = await self._parts.policies.check(step, rollout, facts, to, (actor, asked))
        question = GateQuestion(
            gate="",
            slot=rollout.slot,
            definition_id=facts.definition_id,
            digest=facts.digest,
            commit=facts.commit,
            vertical=facts.vertical,
            from_ramp=facts.ramp,
            to_ramp=to,
            policy_version=PLATFORM_POLICY_VERSION,
            requested_by=actor,
            question_id=asked.request_id,
            dry_run=asked.dry_run,
        )
        gates = (*gates_of(asked, rollout, facts), *more)
        return await self._parts.gates.pass_all(question, gates, facts.vertical, facts)

    async def _keep_refusal(
        self, asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, by: By, refused: SubagentsError
    ) -> None:
        if asked.dry_run:
            return
        held = isinstance(refused, GateHeld)
        event = RolloutEvent(
            slot=rollout.slot,
            subagent_id=facts.definition_id,
            digest=facts.digest,
            what=Happening.HELD if held else Happening.REFUSED,
            at=by.at,
            actor=by.actor,
            actor_key=by.actor_key,
            actor_role=by.actor_role,
            reason=by.reason,
            request_id=by.request_id,
            before=facts.ramp,
            after=asked.to if isinstance(asked, SetRamp) else facts.ramp,
            detail=f"{refused.reason}: {refused.message}",
            sought=asked.sought,
        )
        answer = stored_answer(asked, refused.reason, refused.message, by)
        write = RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(event,), answer=answer)
        await self._parts.store.write(write)


def _with_words(change: Change, said: tuple[str, ...]) -> Change:
    """Return a change whose audit says what the gates said of the step."""
    words = "; ".join(said)
    events = (
        msgspec.structs.replace(event, detail=f"{event.detail}; {words}" if event.detail else words)
        if words and event.what in ASKED_GATES
        else event
        for event in change.events
    )
    return msgspec.structs.replace(change, events=tuple(events))


def _write(before: SlotRollout, change: Change, answer: StoredAnswer | None) -> RolloutWrite:
    return RolloutWrite(
        slot=before.slot,
        expected_revision=before.revision,
        rollout=change.rollout if change.rollout is not before else None,
        transitions=change.transitions,
        events=change.events,
        answer=answer,
    )


def _answer(
    asked: Asked, rollout: SlotRollout, digest: Digest, gates: tuple[str, ...], warnings: tuple[str, ...] = ()
) -> StepAnswer:
    """Return what a step comes to, as one that has changed nothing."""
    facts = rollout.definitions[digest]
    return StepAnswer(
        slot=rollout.slot,
        definition_id=asked.definition_id,
        digest=digest,
        state=facts.state,
        ramp=facts.ramp,
        active=rollout.active == digest,
        revision=rollout.revision,
        changed=False,
        gates=gates,
        warnings=still_named(facts) if isinstance(asked, RetireFlags) else warnings,
        decommission=facts.decommission if isinstance(asked, OfDecommission) else None,
    )
