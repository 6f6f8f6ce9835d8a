"""Take one step of a rollout: asked once, answered once, on record before it acts.

Order: what an earlier request with the same id was answered; the revision; the policies; the gates; then, as one
transaction, the change, its audit and the answer. A refused or held request keeps its answer, too. `Kill`, `RampDown`
and `RollBack` wait for no gate and no policy; kills act before they are on record (`kills.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sidecar.core.errors import (
    GateFailed,
    GateHeld,
    PolicyDenied,
    RequestIdReused,
    RevisionConflict,
    SubagentsError,
    TransitionRefused,
    UnknownSubagent,
    error_of_reason,
)
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import changes
from sidecar.core.rollout.events import Happening, RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.stepping import By, Change
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.gatekeeping import Gatekeeper
from sidecar.operations.rollout.policies import Policies
from sidecar.operations.rollout.ports import RolloutStore, RolloutWrite, StoredAnswer
from sidecar.operations.rollout.requests import (
    AcknowledgeBreach,
    Activate,
    Asked,
    OverrideGate,
    RampDown,
    RetireFlags,
    RollBack,
    SetRamp,
    StepAnswer,
    Transition,
)
from sidecar.operations.rollout.switching import FlagSwitching
from sidecar.policy.lifecycle import PLATFORM_POLICY_VERSION, GateQuestion, Step

DONE = "done"
ASKED_GATES = (Happening.RAMP_SET, Happening.FLAGS_CREATED)
"""Events of steps that gates are asked about."""
TRIES = 5
"""How often a step in the safe direction is laid out anew because somebody else wrote first."""


@dataclass(frozen=True, slots=True)
class Surrounding:
    """What the audit says of the moment: version of the configuration, flags that are on."""

    definition_version: str
    active_flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepParts:
    """What taking steps needs."""

    store: RolloutStore
    gates: Gatekeeper
    policies: Policies
    flags: FlagSwitching
    clock: Clock
    surrounding: Callable[[], Surrounding]


class TakeStep:
    """The operation behind every step but `Kill`."""

    def __init__(self, parts: StepParts) -> None:
        """Join the parts."""
        self._parts = parts

    async def __call__(self, asked: Asked, actor: str) -> StepAnswer:
        """Take a step, or answer as before.

        Args:
            asked: what is wanted.
            actor: the authenticated subject.

        Raises:
            RequestIdReused, RevisionConflict, TransitionRefused, PolicyDenied, GateFailed, GateHeld, UnknownSubagent,
            StoreUnavailable.
        """
        earlier = await self._parts.store.answer(asked.request_id)
        if earlier is not None:
            return answered_before(earlier, asked)
        for _ in range(TRIES):
            rollout, facts = await self._found(asked)
            try:
                return await self._take(asked, rollout, facts, actor)
            except RevisionConflict:
                if asked.expected_revision is not None or not isinstance(asked, RampDown | RollBack):
                    raise
        raise RevisionConflict(f"{asked.definition_id} is changed all the time; ask again")

    async def _found(self, asked: Asked) -> tuple[SlotRollout, DefinitionFacts]:
        for rollout in await self._parts.store.rollouts():
            if asked.slot not in {"", rollout.slot}:
                continue
            found = [each for each in rollout.of_id(asked.definition_id) if asked.digest in {"", each.digest}]
            if found:
                self._refuse_other_revision(asked, rollout)
                serving = [each for each in found if each.digest == rollout.active]
                return rollout, (serving or found)[-1]
        raise UnknownSubagent(
            f"no rollout has a definition {asked.definition_id[:60]!r}; `sidecar subagent list` shows all"
        )

    def _refuse_other_revision(self, asked: Asked, rollout: SlotRollout) -> None:
        if asked.expected_revision not in {None, rollout.revision}:
            raise RevisionConflict(
                f"the rollout of {rollout.slot} has revision {rollout.revision}, not {asked.expected_revision}",
                metadata={"revision": str(rollout.revision), "slot": rollout.slot},
            )

    async def _take(self, asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, actor: str) -> StepAnswer:
        surrounding = self._parts.surrounding()
        by = By(
            actor=actor,
            reason=asked.reason,
            request_id=asked.request_id,
            at=self._parts.clock.now(),
            definition_version=surrounding.definition_version,
            active_flags=surrounding.active_flags,
        )
        try:
            change = changed(asked, rollout, facts, by)  # what the rules refuse, nobody else is asked about
            said = await self._asked_all(asked, rollout, facts, actor)
        except (TransitionRefused, PolicyDenied, GateFailed, GateHeld) as refused:
            await self._keep_refusal(asked, rollout, facts, by, refused)
            raise
        change = _with_words(change, said)
        if asked.dry_run:
            return _answer(asked, change.rollout, facts.digest, changed=False, gates=said)
        edits = await self._parts.flags.prepare(change, facts, actor)
        if edits:
            return msgspec.structs.replace(
                _answer(asked, rollout, facts.digest, changed=False, gates=said), edits=edits
            )
        answer = _answer(asked, change.rollout, facts.digest, changed=change.rollout is not rollout, gates=said)
        await self._parts.store.write(
            _write(rollout, change, _stored(asked, DONE, msgspec.json.encode(answer).decode(), by))
        )
        return msgspec.structs.replace(answer, version=await self._parts.store.version())

    async def _asked_all(
        self, asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, actor: str
    ) -> tuple[str, ...]:
        """Ask the policies, then the gates of the step and those that a policy added."""
        step, to = _step_of(asked), asked.to if isinstance(asked, SetRamp | OverrideGate) else facts.ramp
        if step is None:
            return ()
        more = await self._parts.policies.check(step, rollout.slot, facts, to, (actor, asked))
        gates = [changes.PRE_MERGE] if step is Step.PROMOTE else []
        if isinstance(asked, SetRamp):
            gates = list(changes.gates_of_step(facts, asked.to))
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
        return await self._parts.gates.pass_all(question, [*gates, *more], facts.vertical, facts)

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
            reason=by.reason,
            request_id=by.request_id,
            before=facts.ramp,
            after=asked.to if isinstance(asked, SetRamp) else facts.ramp,
            detail=f"{refused.reason}: {refused.message}",
            sought=asked.sought,
        )
        answer = _stored(asked, refused.reason, refused.message, by)
        write = RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(event,), answer=answer)
        await self._parts.store.write(write)


def changed(asked: Asked, rollout: SlotRollout, facts: DefinitionFacts, by: By) -> Change:
    """Return what a step makes of a rollout. Raises `TransitionRefused`."""
    digest: Digest = facts.digest
    match asked:
        case Transition(step=Step.TO_TEST):
            change = changes.to_test(rollout, digest, by)
        case Transition():
            change = changes.promote(rollout, digest, by)
        case SetRamp(to=to):
            change = changes.set_ramp(rollout, digest, to, by)
        case RampDown(breach_id=breach_id):
            change = changes.ramp_down(rollout, digest, breach_id, by)
        case AcknowledgeBreach(breach_id=breach_id):
            change = changes.acknowledge(rollout, digest, breach_id, by)
        case OverrideGate(gate=gate, to=to, expires_at=expires_at):
            change = changes.override(rollout, digest, (gate, to, expires_at), by)
        case RollBack():
            change = changes.roll_back(rollout, digest, by)
        case Activate():
            change = changes.activate(rollout, digest, by)
        case RetireFlags():
            change = changes.retire_flags(rollout, digest, by)
        case _:
            raise TransitionRefused(f"{type(asked).__name__} is not a step")
    return change


def answered_before(earlier: StoredAnswer, asked: Asked) -> StepAnswer:
    """Return the answer of an earlier request with the same id, or raise what it was refused with."""
    if earlier.fingerprint != asked.fingerprint:
        raise RequestIdReused("request_id was used for another request", metadata={"at": str(earlier.at)})
    if earlier.kind == DONE:
        return msgspec.structs.replace(msgspec.json.decode(earlier.answer_json, type=StepAnswer), repeated=True)
    refusal = error_of_reason(earlier.kind) or TransitionRefused
    raise refusal(earlier.answer_json, metadata={"repeated": "true"})


def _step_of(asked: Asked) -> Step | None:
    """Return what policies are asked about; None: nobody is asked."""
    if isinstance(asked, Transition):
        return asked.step
    steps: tuple[tuple[type[Asked], Step], ...] = (
        (SetRamp, Step.SET_RAMP),
        (OverrideGate, Step.OVERRIDE_GATE),
        (Activate, Step.ACTIVATE),
        (RetireFlags, Step.RETIRE_FLAGS),
    )
    return next((step for kind, step in steps if isinstance(asked, kind)), None)


def _with_words(change: Change, said: tuple[str, ...]) -> Change:
    """Return a change whose audit says what the gates said of the step."""
    words = "; ".join(said)
    events = (
        msgspec.structs.replace(event, detail=words) if words and event.what in ASKED_GATES else event
        for event in change.events
    )
    return msgspec.structs.replace(change, events=tuple(events))


def _write(before: SlotRollout, change: Change, answer: StoredAnswer) -> RolloutWrite:
    return RolloutWrite(
        slot=before.slot,
        expected_revision=before.revision,
        rollout=change.rollout if change.rollout is not before else None,
        transitions=change.transitions,
        events=change.events,
        answer=answer,
    )


def _stored(asked: Asked, kind: str, answer_json: str, by: By) -> StoredAnswer:
    return StoredAnswer(asked.request_id, asked.fingerprint, kind, answer_json, by.at)


def _answer(asked: Asked, rollout: SlotRollout, digest: Digest, *, changed: bool, gates: tuple[str, ...]) -> StepAnswer:
    facts = rollout.definitions[digest]
    return StepAnswer(
        slot=rollout.slot,
        definition_id=asked.definition_id,
        digest=digest,
        state=facts.state,
        ramp=facts.ramp,
        active=rollout.active == digest,
        revision=rollout.revision,
        changed=changed,
        gates=gates,
    )
