"""Sends tool calls with effects: the key is recorded before an effect is sent, and no effect is repeated.

The journal decides which sidecar may send. If another sidecar has taken over the dispatch, the record refuses the key
before the request leaves. A sidecar that takes the dispatch over finds the key and makes no further attempt of the
child.
"""

from collections.abc import Awaitable
from typing import Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.envelopes.verdicts import Judgement, Released, WithholdReason
from sidecar.core.errors import GrantSpent, RecordConflict, ToolBudgetExhausted, ToolNotAllowed
from sidecar.core.executing.states import ExecutionState
from sidecar.core.journal.facts import ChildNoted
from sidecar.core.journal.marks import Values, What
from sidecar.core.journal.texts import Texts
from sidecar.core.replaying.frames import Effect
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.child.stop_child import stop_child
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.data_use import MOST_EFFECTS, EffectResult, KeptAnswer, RequestedEffect
from sidecar.operations.turn.state.open_turns import Turns
from subagents_errors import CallFailure

REFUSALS: Final = frozenset(
    {WithholdReason.STATUS_ERROR, WithholdReason.MISSING_PRINCIPAL, WithholdReason.PRINCIPAL_REFUSED}
)
"""Responses with which a service states that it did nothing."""


class AdmittedEffect(Struct, frozen=True):
    """An effect whose key is on record."""

    key: str
    effect: RequestedEffect


class SendEffect:
    """Prepares, sends and completes one effect for the tool gateway."""

    def __init__(self, rules: DispatchRules, dependencies: TurnDependencies, turns: Turns) -> None:
        """Start without state: each child holds its sent effects."""
        self._rules, self._deps, self._turns = rules, dependencies, turns

    def key_of(self, child: Child, tool: ToolEntry, arguments_json: str) -> str:
        """Return the idempotency key of the next call of a child's attempt."""
        return child.sent_effects().next_key(child.attempts, tool.id, arguments_json)

    async def admit(self, child: Child, tool: ToolEntry, arguments_json: str) -> AdmittedEffect | KeptAnswer:
        """Record the key of an effect; return it, or the answer that an earlier attempt received under the same key.

        Raises:
            GrantSpent: another sidecar runs the child.
            StoreUnavailable: the key could not be recorded in time; the effect is not sent.
            ToolBudgetExhausted: the child has sent the maximum number of effects.
            ToolNotAllowed: an earlier attempt completed an effect of this tool with other arguments.
        """
        key, attempt = self.key_of(child, tool, arguments_json), child.attempts
        effects = child.sent_effects()
        earlier = effects.requested(key)
        # A known effect without an answer was refused or not sent, so it is sent now, under the same key. (An unknown
        # result stops the child, and an answer for which there was no room prevents another attempt.)
        if earlier is not None and earlier.answer is not None:
            earlier.ask_again(attempt)
            self._deps.recorder.effect_settled(child.slot, tool.id, "repeated")
            return earlier.answer
        if effects.has_unrepeated_effect(attempt, tool.id):
            raise ToolNotAllowed(
                "an earlier attempt of this call has had this tool change something; repeat that call with the same "
                "arguments first",
                metadata={"tool_id": tool.id, "reason": "effect_of_earlier_attempt"},
            )
        if len(effects) >= MOST_EFFECTS:
            most = str(MOST_EFFECTS)
            raise ToolBudgetExhausted(
                f"the child has sent {most} effects, which is the limit", metadata={"limit": most}
            )
        # Begun before the await, so that concurrent calls of the sub-agent count towards the limit above.
        effect = effects.begin(key, attempt, tool.id)
        try:
            await self._record(child, tool, key)
        except BaseException:
            # Also a cancellation, because nothing was sent: the next attempt may send the effect under the same key.
            self._settle(child, tool, AdmittedEffect(key, effect), EffectResult.NOT_SENT)
            raise
        return AdmittedEffect(key, effect)

    async def send(
        self, child: Child, tool: ToolEntry, admitted: AdmittedEffect, asking: Awaitable[Judgement]
    ) -> Judgement:
        """Send the request and note its result. If the result is uncertain, stop the child."""
        # Before the request: from here on, another attempt could repeat the effect.
        child.use(Effect.SENT, tool.id)
        result = EffectResult.UNKNOWN
        try:
            judgement = await asking
            result = result_of(judgement)
        finally:  # also if the sub-agent has disconnected: the request may have been executed
            if result is EffectResult.UNKNOWN:
                admitted.effect.settle(result)
                self._deps.recorder.effect_settled(child.slot, tool.id, result)
                turn = self._turns.known(child.log.run_id)
                if turn is not None:
                    stop_child(turn, child, CallFailure.EFFECT_UNKNOWN)
            else:
                child.use(Effect.SETTLED, tool.id)
                self._settle(child, tool, admitted, result)
        if isinstance(judgement, Released):
            answer = KeptAnswer(judgement.payload_json, judgement.status == "partial")
            # Another attempt would need this answer, because it may not send the effect again. If there is no room for
            # the answer, no other attempt is made.
            if not child.sent_effects().keep(admitted.effect, answer):
                child.use(Effect.FINAL, tool.id)
        return judgement

    def not_sent(self, child: Child, tool: ToolEntry, admitted: AdmittedEffect) -> None:
        """Settle an effect whose attempt ended while the key was being recorded."""
        self._settle(child, tool, admitted, EffectResult.NOT_SENT)

    def _settle(self, child: Child, tool: ToolEntry, admitted: AdmittedEffect, result: EffectResult) -> None:
        """Note a certain result; the next fact of the child records it."""
        admitted.effect.settle(result)
        self._deps.recorder.effect_settled(child.slot, tool.id, result)
        # The log of a child that has ended accepts no events.
        if child.log.state is ExecutionState.RUNNING:
            child.note(self._deps.clock.now(), What.EFFECT_SETTLED, tool.id, admitted.key, result.value)

    async def _record(self, child: Child, tool: ToolEntry, key: str) -> None:
        """Record the key, after all unconfirmed facts of the dispatch."""
        turn = self._turns.known(child.log.run_id)
        dispatch = None if turn is None else turn.dispatches.get(child.dispatch_id)
        if turn is None or dispatch is None or child.log.state is not ExecutionState.RUNNING:
            raise GrantSpent("the attempt that this grant was for is over; stop calling tools")
        now, values, clock = self._deps.clock.now(), list[Values](), self._deps.clock
        # There is no await between the check above and this note, so the event cannot fall behind the end of the child.
        child.note(now, What.EFFECT_SENT, tool.id, key)
        noted = ChildNoted(child.dispatch_id, (child.progress(now, values),))
        happened = [self._deps.store.draft(turn.turn_id, now, noted, Texts(values=tuple(values)))]
        before = turn.in_front(child.dispatch_id)
        turn.happened(child.dispatch_id, happened)
        # The sub-agent waits for this append, so it gets the time limit of an append even if the dispatch has minutes
        # left.
        until = min(dispatch.record_by, clock.monotonic() + self._rules.record_timeout.total_seconds())
        refused = await append_within(self._deps.store, (*before, *happened), until, dispatch.deadlines)
        if refused is None:
            turn.recorded(child.dispatch_id, (*before, *happened))
            return
        if isinstance(refused, RecordConflict):
            dispatch.lose()
            raise GrantSpent("another sidecar runs this child; stop calling tools")
        # The key may still become recorded. A sidecar that takes over then makes no further attempt of the child,
        # although nothing was sent: that is the safe side.
        turn.note_unconfirmed()
        raise refused


def result_of(judgement: Judgement) -> EffectResult:
    """Return the result of the effect that the checks prove; a response that failed a check proves nothing."""
    if isinstance(judgement, Released):
        return EffectResult.DONE
    if judgement.never_sent:
        return EffectResult.NOT_SENT
    # Every other reason, such as a timeout or an invalid response, is compatible with an effect that happened.
    return EffectResult.REFUSED if judgement.reason in REFUSALS else EffectResult.UNKNOWN
