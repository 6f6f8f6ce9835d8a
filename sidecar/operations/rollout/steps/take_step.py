"""Takes one step of a rollout: a repeated request gets the first answer, and a step is recorded before it takes effect.

All kinds of steps share this code; `phases.py` lists the phases of each kind. A refused or held request also keeps
its answer. Kills and ramp-downs take effect in a replica before they arrive here (`stops/`).
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from sidecar.core.errors import (
    GateFailed,
    GateHeld,
    PolicyDenied,
    RevisionConflict,
    StoreUnavailable,
    SubagentsError,
    TransitionRefused,
)
from sidecar.core.rollout import transitions
from sidecar.core.rollout.events import GateResult, RolloutEventKind
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.step import Actor, Change, event_about
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.decommission.decommission_steps import Decommissioning
from sidecar.operations.rollout.definition_lookup import DefinitionMatch, match_on_record
from sidecar.operations.rollout.flags.flag_switch import FlagPlan, ManualFlagSwitch
from sidecar.operations.rollout.requests import (
    HELD,
    DecommissionRequest,
    Kill,
    OverrideGate,
    RetireFlags,
    SetRamp,
    StepAnswer,
    StepRequest,
    SwitchFlag,
)
from sidecar.operations.rollout.steps.content_proofs import ContentProofs
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, refuse_unless_passed, words_of
from sidecar.operations.rollout.steps.phases import AnswerReuse, StopInEffect, phases_of
from sidecar.operations.rollout.steps.policy_checks import Policies
from sidecar.operations.rollout.steps.step_changes import asked_of_policies, changed, gates_of
from sidecar.operations.rollout.steps.step_flags import FlagSwitching, is_still_referenced
from sidecar.operations.rollout.store.ports import RolloutStore, RolloutWrite, StoredAnswer
from sidecar.operations.rollout.stored_answers import (
    DONE,
    AuditContext,
    actor_of,
    answer_about,
    is_done,
    previous_answer,
    requester_mark,
    requester_of,
    stored_answer,
)
from sidecar.policy.lifecycle import PLATFORM_POLICY_VERSION, GateQuestion

GATED_EVENTS = (RolloutEventKind.RAMP_SET, RolloutEventKind.FLAGS_CREATED, RolloutEventKind.CONFIGURED)
"""Events of steps for which gates are called."""


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the rules for a step.

    Attributes:
        switch: a flag switch by an operator.
        gates: the answers of the gates.
    """

    found: DefinitionMatch
    change: Change
    switch: FlagPlan | None = None
    gates: tuple[GateResult, ...] = ()

    def answer(self, asked: StepRequest, rollout: SlotRollout, *, changed: bool = False) -> StepAnswer:
        """Return the answer to the step, about the state of `rollout`."""
        facts = rollout.definitions[self.found.facts.digest]
        return replace(
            answer_about(rollout, facts, changed=changed),
            gates=self.gates,
            decommission=facts.decommission if isinstance(asked, DecommissionRequest) else None,
            flag=self.switch.answer(switched=changed) if self.switch else None,
        )


class ExecuteStep(msgspec.Struct, frozen=True, kw_only=True):
    """The operation behind every step. A kill or ramp-down takes effect locally before it arrives here.

    Attributes:
        audit_context: returns what every audit event contains about its time.
        flags: switches the flags of ramps.
        by_hand: switches flags that a request names.
    """

    store: RolloutStore
    clock: Clock
    audit_context: Callable[[], AuditContext]
    proofs: ContentProofs
    policies: Policies
    gates: GateEvaluator
    flags: FlagSwitching
    by_hand: ManualFlagSwitch
    decommissioning: Decommissioning

    async def __call__(self, asked: StepRequest, actor: str, held: StopInEffect | None = None) -> StepAnswer:
        """Take a step, or repeat the earlier answer.

        Args:
            asked: the request.
            actor: the authenticated operator.
            held: the local stop, already in effect: recorded whatever revision `asked` names, even if its id was used.

        Raises:
            RequestIdReused, RevisionConflict, TransitionRefused, PolicyDenied, GateFailed, GateHeld, UnknownDefinition,
            StoreUnavailable.
        """
        phases = phases_of(asked)
        conflict: SubagentsError = RevisionConflict(f"{asked.definition_id} is changed all the time; ask again")
        for _ in range(1 if phases.by_revision and held is None and asked.names_revision else phases.tries):
            request, earlier = await self._identify(asked, actor, held)
            if earlier is not None and phases.repeats:
                return previous_answer(earlier, request, actor)
            try:
                return await self._take(request, actor, held, earlier)
            except phases.overtaken as other:
                conflict = other
        # Another write came first. It may have been another attempt of this very request, here or at another replica.
        request, earlier = await self._identify(asked, actor, held)
        if earlier is not None and phases.repeats:
            return previous_answer(earlier, request, actor)
        if held is not None:
            raise StoreUnavailable(conflict.message)  # the stop was confirmed to its caller: a race must not refuse it
        raise conflict

    async def _identify(
        self, asked: StepRequest, actor: str, held: StopInEffect | None
    ) -> tuple[StepRequest, StoredAnswer | None]:
        """Return the request with the id under which it is taken, and the answer that is stored under that id."""
        earlier = await self.store.answer(asked.request_id)
        may_rename = held is not None and phases_of(asked).reused is AnswerReuse.RENAMED
        if not may_rename or earlier is None or is_done(earlier, asked, actor):
            return asked, earlier
        renamed = replace(asked, request_id=f"{asked.request_id}{HELD}")
        earlier = await self.store.answer(renamed.request_id)
        if earlier is not None and earlier.asker != requester_of(asked, actor):  # two operators held the same stop
            renamed = replace(renamed, request_id=f"{renamed.request_id}/{requester_mark(asked, actor)}")
            earlier = await self.store.answer(renamed.request_id)
        return renamed, earlier

    async def _take(
        self, asked: StepRequest, actor: str, held: StopInEffect | None, earlier: StoredAnswer | None
    ) -> StepAnswer:
        phases = phases_of(asked)
        rollouts = await self.store.rollouts()  # from the store, not the view: the write compares revisions
        found = match_on_record({each.slot: each for each in rollouts}, asked, held.stop if held else None)
        if phases.by_revision and held is None:
            _refuse_other_revision(asked, found.rollout)
        if earlier is not None and is_done(earlier, asked, actor) and not self._is_killable_again(found):
            return previous_answer(earlier, asked, actor)  # of a kill: other steps have returned it before
        at = held.stop.at if held is not None and phases.dated_as_held else self.clock.now()
        by, gates = actor_of(asked, actor, at, self.audit_context()), tuple[GateResult, ...]()
        try:
            plan = await self._plan(asked, found, rollouts, by, held)
            if phases.proven:
                await self.proofs.prove(asked, *found)
            gates = await self._ask_all(asked, found, actor)  # after the cheap checks: a gate takes seconds
            refuse_unless_passed(gates)
            plan = replace(plan, gates=gates)
            if phases.flags:
                await self.flags.check(plan.change, found.facts)  # last: gates take seconds, and flags may change
        except (TransitionRefused, PolicyDenied, GateFailed, GateHeld) as refused:
            if earlier is None and not asked.dry_run:  # a stored answer is kept
                await self._keep_refusal(asked, found, by, refused, gates)
            raise
        return await self._write_and_answer(asked, plan, by, held, store_answer=earlier is None)

    async def _plan(
        self,
        asked: StepRequest,
        found: DefinitionMatch,
        rollouts: Sequence[SlotRollout],
        by: Actor,
        held: StopInEffect | None,
    ) -> _Plan:
        """Return the change by the rules. If the rules refuse a step, no policy and no gate is called."""
        if isinstance(asked, SwitchFlag):
            switch = await self.by_hand.laid_out(asked, found, rollouts, by)
            return _Plan(found=found, change=switch.change, switch=switch)
        if isinstance(asked, DecommissionRequest):
            return _Plan(found=found, change=await self.decommissioning.changed(asked, *found, by))
        if isinstance(asked, Kill):
            exists = (held is not None and held.judged) or self.flags.kill_flag_exists(found.facts)
            killed = transitions.kill(found.rollout, found.facts.digest, by, flag_exists=exists)
            return _Plan(found=found, change=killed)
        return _Plan(found=found, change=changed(asked, *found, by))

    def _is_killable_again(self, found: DefinitionMatch) -> bool:
        """Return whether a kill that was completed before still has something to kill."""
        return transitions.may_be_killed(found.facts, flag_exists=self.flags.kill_flag_exists(found.facts))

    async def _ask_all(self, asked: StepRequest, found: DefinitionMatch, actor: str) -> tuple[GateResult, ...]:
        """Call the policies, then the gates of the step and those that a policy added."""
        rollout, facts = found
        step = asked_of_policies(asked, rollout)
        to = asked.to if isinstance(asked, SetRamp | OverrideGate) else facts.ramp
        if step is None:
            return ()
        more = await self.policies.check(step, found, to, asked, actor)
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
        return await self.gates.ask_all(question, (*gates_of(asked, rollout, facts), *more), facts.vertical, facts)

    async def _write_and_answer(
        self, asked: StepRequest, plan: _Plan, by: Actor, held: StopInEffect | None, *, store_answer: bool
    ) -> StepAnswer:
        """Switch the flags, write, and return the answer. `store_answer`: the request id has no stored answer yet."""
        phases, (before, facts), change = phases_of(asked), plan.found, _with_gates(plan.change, plan.gates)
        warnings = await self.flags.unserved(change, facts) if phases.flags else ()
        if isinstance(asked, RetireFlags):
            warnings = is_still_referenced(change.rollout.definitions[facts.digest])
        if asked.dry_run:  # before the flags: a dry run changes nothing
            return replace(plan.answer(asked, change.rollout), warnings=warnings)
        edits: tuple[str, ...] = ()
        if phases.flags:
            edits = await self.flags.prepare(change, facts, by.actor)
            change = self.flags.confirmed(change, facts)
        elif plan.switch is not None:
            edits = await self.by_hand.prepare(plan.switch, by.actor)
        if edits:  # an operator must switch the flags first: nothing is written
            return replace(plan.answer(asked, before), edits=edits)
        answer = plan.answer(asked, change.rollout, changed=change.rollout is not before or bool(change.events))
        answer = replace(answer, warnings=warnings)
        kept = stored_answer(asked, DONE, msgspec.json.encode(answer).decode(), by) if store_answer else None
        write = _write(before, change, kept)  # one transaction: state, audit and answer
        await ((held and held.write) or self.store.write)(plan.switch.written(write, by) if plan.switch else write)
        if not phases.says_version:
            return answer
        return replace(answer, version=await self.store.version())

    async def _keep_refusal(
        self,
        asked: StepRequest,
        found: DefinitionMatch,
        by: Actor,
        refused: SubagentsError,
        gates: tuple[GateResult, ...],
    ) -> None:
        rollout, facts = found
        what = RolloutEventKind.HELD if isinstance(refused, GateHeld) else RolloutEventKind.REFUSED
        to = asked.to if isinstance(asked, SetRamp) else facts.ramp
        event = event_about(rollout, facts, what, by, to=to, detail=f"{refused.reason}: {refused.message}")
        event = replace(event, sought=asked.sought, gate_results=gates)
        kept = stored_answer(asked, refused.reason, refused.message, by)
        await self.store.write(_write(rollout, Change(rollout, (), (event,)), kept))  # `__call__` repeats a conflict


def _refuse_other_revision(asked: StepRequest, rollout: SlotRollout) -> None:
    if asked.expected_revision not in {None, rollout.revision}:
        raise RevisionConflict(
            f"the rollout of {rollout.slot} has revision {rollout.revision}, not {asked.expected_revision}",
            metadata={"revision": str(rollout.revision), "slot": rollout.slot},
        )


def _with_gates(change: Change, gates: tuple[GateResult, ...]) -> Change:
    """Return the change with the gates' answers in its audit events."""
    words = words_of(gates)
    events = (
        replace(event, detail=f"{event.detail}; {words}" if event.detail else words, gate_results=gates)
        if gates and event.what in GATED_EVENTS
        else event
        for event in change.events
    )
    return replace(change, events=tuple(events))


def _write(before: SlotRollout, change: Change, answer: StoredAnswer | None) -> RolloutWrite:
    return RolloutWrite(
        slot=before.slot,
        expected_revision=before.revision,
        rollout=change.rollout if change.rollout is not before else None,
        transitions=change.transitions,
        events=change.events,
        answer=answer,
    )
