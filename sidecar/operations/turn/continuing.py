"""Calls that answer a question: checks the answer, records it, and finds the work that the call continues.

A sub-agent that asked the user something is suspended, and its outcome contains a receipt. Later, usually in the
next turn, the orchestrator calls with the receipt and the user's answer. `dispatch_calls` redeems the receipts before
the dispatch is recorded; `takeover` finds the same work again for a dispatch of another sidecar.
"""

import msgspec

from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.plan import PlannedCall, outcomes_without_run
from sidecar.core.dispatching.questions import AnsweredBy, Answering, Continuation
from sidecar.core.dispatching.receipts import ReceiptClaims, ReceiptRefused, opened, refusal_of
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.executing.stored_record import StoredChild
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.facts import QuestionAnswered
from sidecar.core.journal.texts import Texts
from sidecar.operations.ports import Clock
from sidecar.operations.record.ports import Store
from sidecar.operations.record.timed_access import append_within, read_within
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from subagents_errors import CallFailure


class ContinueWork:
    """Redeems receipts.

    A fact of the asking turn redeems a receipt before the continuing child exists. The record accepts one such fact per
    question, so of two sidecars that redeem the same receipt one is refused. A repeated dispatch finds its own fact and
    continues.

    Args:
        keys: the keys that sign surface tokens and receipts.
        seconds: the longest wait for a read of the record.
    """

    def __init__(self, store: Store, clock: Clock, keys: SigningKeys, seconds: float) -> None:
        self._store, self._clock, self._keys, self._seconds = store, clock, keys, seconds

    async def redeem(self, dispatch: LiveDispatch) -> list[CallOutcome]:
        """Find the children that the calls of a dispatch continue; settle and return the calls that are refused.

        A refused call still occupies its place under the cap: a sidecar that takes the dispatch over computes the plan
        again from the request alone. The refusal is recorded together with the opening.

        Raises:
            StoreUnavailable: the children cannot be read. The same dispatch may be sent again.
        """
        refused = list[CallOutcome]()
        for planned in dispatch.plan.run:
            answering = planned.call.answering
            if answering is None:
                continue
            result = await self._redeem_one(dispatch, planned, answering)
            if isinstance(result, Continuation):
                dispatch.calls.continues(planned.call.call_id, result)
            else:
                # The other calls of the dispatch run: a used or expired receipt must not cost the user the answers of
                # other sub-agents.
                outcome = outcomes_without_run(planned, Outcome.REFUSED, result.reason, result.hint)
                dispatch.calls.refuse(outcome)
                # The call entered its slot queue when the dispatch was accepted. If it stayed there, later calls of the
                # slot would wait for it until the turn ends.
                dispatch.turn.queues.leave(dispatch.queue_keys[outcome.call_id])
                refused.append(outcome)
        return refused

    async def restore(self, dispatch: LiveDispatch) -> None:
        """Find the work that the calls of another sidecar's dispatch continue; stop calls that cannot continue.

        Raises:
            StoreUnavailable: the record cannot be read.
        """
        for planned in dispatch.plan.run:
            answering, call_id = planned.call.answering, planned.call.call_id
            if answering is None or planned.place in dispatch.calls.outcomes:
                continue
            # `redeem` is not repeated here: the former owner redeemed the receipt before it opened the dispatch. If the
            # record does not show that, no sidecar may run the call.
            claims, this_call = opened(answering.receipt, self._keys), _answered_by(dispatch, planned)
            child = None if claims is None else await self._child(claims)
            if child is None or child.question is None or child.answered_by != this_call:
                dispatch.calls.stop(call_id, CallFailure.RECEIPT_UNKNOWN)
            else:
                dispatch.calls.continues(call_id, continuation_of(child, answering))

    async def _redeem_one(
        self, dispatch: LiveDispatch, planned: PlannedCall, answering: Answering
    ) -> Continuation | ReceiptRefused:
        """Redeem the receipt of one call; return the work that the call continues, or why it may not."""
        claims = opened(answering.receipt, self._keys)
        if claims is None:
            return ReceiptRefused(CallFailure.RECEIPT_UNKNOWN)
        now, this_call = self._clock.now(), _answered_by(dispatch, planned)
        refusal = refusal_of(claims, answering, dispatch.turn.claims, planned.tool, now)
        # These refusals depend only on the receipt and the request, so they need no read of the record.
        if refusal is not None and refusal.reason is not CallFailure.RECEIPT_EXPIRED:
            return refusal
        # An expired receipt may still be this call's own: a repeated dispatch, which redeemed the receipt in time,
        # continues. The record decides.
        child = await self._child(claims)
        # Applies unless this very call has redeemed the receipt before.
        refusal_of_others = refusal or self._refusal_on_record(child, claims)
        if child is None or (refusal_of_others is not None and child.answered_by != this_call):
            return refusal_of_others or ReceiptRefused(CallFailure.RECEIPT_UNKNOWN)
        if child.answered_by is None:
            # The fact belongs to the turn that asked, which may have ended. The dispatch of this turn is not recorded
            # yet: if this process dies in between, the same request finds its own fact and continues.
            body = QuestionAnswered(
                child.opened.dispatch_id, child.opened.step_idx, *msgspec.structs.astuple(this_call)
            )
            draft = self._store.draft(claims.turn_id, now, body, Texts())
            rejected = await append_within(self._store, [draft], dispatch.record_by, dispatch.deadlines)
            if isinstance(rejected, RecordConflict):
                return ReceiptRefused(CallFailure.RECEIPT_USED)
            if rejected is not None:
                raise rejected
        return continuation_of(child, answering)

    def _refusal_on_record(self, child: StoredChild | None, claims: ReceiptClaims) -> ReceiptRefused | None:
        """Return why the record does not allow the answer; None if the question is open."""
        if child is None or child.question is None or child.question.digest != claims.question:
            return ReceiptRefused(CallFailure.RECEIPT_UNKNOWN)
        return None if child.answered_by is None else ReceiptRefused(CallFailure.RECEIPT_USED)

    async def _child(self, claims: ReceiptClaims) -> StoredChild | None:
        """Return the child that asked, from the record. Raises `StoreUnavailable`."""
        turn = await read_within(self._store.turn(TurnId(claims.turn_id)), self._seconds)
        if isinstance(turn, StoreUnavailable):
            raise turn
        children = () if turn is None else turn.children
        return next((each for each in children if each.opened.child_id == claims.child_id), None)


def continuation_of(child: StoredChild, answering: Answering) -> Continuation:
    """Return the continuation for the next sub-agent, from a child whose question is on record."""
    question = child.question
    if question is None:
        raise StoreUnavailable("the texts of the question were erased while it was answered; try again")
    return Continuation(
        turn_id=child.opened.turn_id,
        child_id=child.opened.child_id,
        kind=question.kind,
        question=question.text,
        about_json=question.about_json,
        answering=answering,
        state=child.state,
    )


def _answered_by(dispatch: LiveDispatch, planned: PlannedCall) -> AnsweredBy:
    return AnsweredBy(dispatch.turn.turn_id, dispatch.dispatch_id, planned.place)
