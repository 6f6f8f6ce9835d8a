"""Derives readable records from the facts of one turn: rows, events, outcomes and the end, in one order.

All readers of whole turns use this module: restores and takeovers, `GetTurn`, `WatchEvents` and replays. Lists of turns
have a smaller derivation (`core/listing/turn_rows.py`). Records of earlier facts never change when another fact
arrives; each fact only appends records. A watcher can therefore continue after any record. The types of the records are
in `core/executing`.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.questions import AnsweredBy
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.records import (
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    QuestionAnswered,
    Record,
    ScoreRecorded,
    TurnEnded,
)
from sidecar.core.identifiers import CallId, ChildId, DispatchId, TurnId
from sidecar.core.journal import facts
from sidecar.core.journal.child_events import MICROSECOND, NO_VALUES, ChildReading, ChildSoFar
from sidecar.core.journal.dispatch_projection import DispatchProjection, routing_of
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import ChildStart, Progress, Settlement
from sidecar.core.journal.heads import progress_of
from sidecar.core.journal.marks import Mark, Values, What, trimmed
from sidecar.core.journal.opening.claims import BareClaims, UnnamedClaims, UserTexts, named
from sidecar.core.journal.opening.contracts import ContractTexts, below, called, restored
from sidecar.core.journal.opening.requests import RequestTexts, fingerprint_of, request_of
from sidecar.core.journal.texts import EndTexts, OutcomeTexts

BEGUN: Final = (Mark(What.CREATED, 0), Mark(What.STARTED, 0))
"""The first events of every recorded child. No fact stores them: the fact that opens the child implies them."""
# For children whose texts were erased. Empty and not None, which would mean: the same text as in the request.
NO_CONTRACT_TEXTS: Final = ContractTexts(description="", task_prompt="", goal_summary="", title="")


class TurnProjection:
    """One turn, read fact by fact.

    Attributes:
        claims: the newest claims; None before the first fact.
        dispatches, children: in order of opening; children by step.
        steps: of the children, by id.
        scores: of the calls, in order.
    """

    def __init__(self, turn_id: TurnId) -> None:
        """Begin before the first fact."""
        self.turn_id = turn_id
        self.claims: SurfaceClaims | None = None
        self.dispatches: dict[DispatchId, DispatchProjection] = {}
        self.children: dict[int, ChildReading] = {}
        self.steps: dict[ChildId, int] = {}
        self.scores: list[ScoreRecorded] = []

    def take(self, draft: Draft) -> list[Record]:
        """Derive the records that one more accepted fact adds, in order."""
        body, texts = draft.body, draft.texts
        records: list[Record] = []
        match body:
            case facts.DispatchOpened():
                records.append(self._opened(draft, body))
                records += self._children(draft, body.dispatch_id, body.children)
            case facts.ChildrenOpened():
                # The delegating child first: its event `delegated` precedes the row of the child that it delegates to.
                records += self._progressed(draft, body.children)
                records += self._children(draft, body.dispatch_id, body.children)
            case facts.CallsSettled():
                records += self._settled(draft, body)
            case facts.DispatchTaken():
                records.append(DispatchTaken(self.turn_id, body.dispatch_id, body.epoch, draft.at))
            case facts.QuestionAnswered():
                records.append(self._answered(draft, body))
            case facts.ScoreRecorded():
                records.append(self._scored(draft, body))
            case facts.TurnEnded():
                # Before the routing decision is derived: it shows the claims, and this fact may have newer ones.
                self._bind(body.claims, texts.user)
                records += [*self._progressed(draft), *self._ended(draft, body)]
            # All other kinds add events only; `CallsCancelled` adds nothing, because a cancel is a mark on the
            # dispatch.
            case _:
                records += self._progressed(draft)
        return records

    # --- one kind each

    def _bind(self, claims: BareClaims | None, user: UserTexts | None) -> SurfaceClaims:
        if claims is not None:
            # The newest claims replace earlier ones: a turn that was bound again must be read as it was bound last, or
            # its end would differ from the end that its sidecar reported.
            self.claims = named(UnnamedClaims(claims, user or UserTexts()), self.turn_id)
        if self.claims is None:
            # The rules refuse such a turn; it can only come from a record that was changed by hand.
            raise LookupError(f"no fact of turn {self.turn_id} says what it was bound to")
        return self.claims

    def _opened(self, draft: Draft, body: facts.DispatchOpened) -> DispatchOpened:
        claims = self._bind(body.claims, draft.texts.user)
        request = request_of(body.dispatch_id, body.asked, draft.texts.request or RequestTexts(), draft.texts.values)
        # Derived, not stored. A takeover restores the request from it; a repetition must have the same fingerprint.
        request_json = request.to_json()
        opened = DispatchOpened(
            turn_id=self.turn_id,
            dispatch_id=body.dispatch_id,
            episode_id=claims.episode_id,
            principal=claims.principal,
            claims_json=msgspec.json.encode(claims).decode(),
            request_json=request_json,
            fingerprint=fingerprint_of(request_json),
            first_step=body.first_step,
            places=body.places,
            calls=len(body.asked.call_ids),
            intents=IntentReport(*msgspec.structs.astuple(body.intents)),
            cap=body.cap or CapBehaviour.WITHIN,
            opened_at=draft.at,
            settle_by=draft.at + body.settle_after * MICROSECOND,
            turn_expires_at=claims.expires_at,
        )
        self.dispatches[body.dispatch_id] = DispatchProjection(opened, request, claims)
        return opened

    def _children(self, draft: Draft, dispatch_id: DispatchId, starts: Sequence[ChildStart]) -> Iterator[Record]:
        # After an erasure the children still exist, with empty texts.
        texts = draft.texts.contracts or (NO_CONTRACT_TEXTS,) * len(starts)
        for start, said in zip(starts, texts, strict=True):
            child = self._child(self.dispatches[dispatch_id], start, said, draft.at)
            self.children[start.step] = child
            self.steps[start.child_id] = start.step
            yield child.opened
            for mark in BEGUN:
                yield child.take(mark, NO_VALUES, child.opened.opened_at, child.so_far.about())

    def _child(
        self, dispatch: DispatchProjection, start: ChildStart, texts: ContractTexts, at: datetime
    ) -> ChildReading:
        of, parent = dispatch.opened, None if start.parent is None else self.children[start.parent]
        place = start.step - of.first_step
        # The contract of a call repeats values of the request; that of a delegated child, of its parent's contract.
        contract: Contract = restored(
            start.contract,
            texts,
            called(dispatch.claims, start.slot, start.step, dispatch.request, place)
            if parent is None
            else below(dispatch.claims, start.slot, start.step, parent.opened.child_id, parent.so_far.contract),
        )
        opened = ChildOpened(
            child_id=start.child_id,
            turn_id=self.turn_id,
            episode_id=of.episode_id,
            dispatch_id=of.dispatch_id,
            # No call of the model asked for a delegated child, and its step is no place of the request.
            call_id=dispatch.request.calls[place].call_id if parent is None else CallId(start.child_id),
            slot=start.slot,
            step_idx=start.step,
            context_json=contract.to_json(),
            opened_at=at + start.after * MICROSECOND,
            parent_child_id=None if parent is None else parent.opened.child_id,
        )
        return ChildReading(ChildSoFar(opened, contract, start.parent))

    def _progressed(self, draft: Draft, starts: Sequence[ChildStart] = ()) -> Iterator[Record]:
        """Derive the events of the children that a fact concerns, child after child; `starts`: those that it opens."""
        values: Iterator[Values] = iter(draft.texts.values)
        for each in progress_of(draft.body):
            # All children share the iterator: the values of a fact are stored in the order of its marks, child after
            # child.
            yield from self._events(each, draft, values, _delegated(each, starts), NO_VALUES)

    def _events(
        self, progress: Progress, draft: Draft, values: Iterator[Values], delegated: Values, settled: Values
    ) -> Iterator[Record]:
        child = self.children[progress.step]
        for mark in progress.marks:
            # None: the texts were erased. The events remain, with their names and times.
            yield child.take(mark, next(values, None), draft.at, child.so_far.about(settled, delegated))

    def _settled(self, draft: Draft, body: facts.CallsSettled) -> Iterator[Record]:
        dispatch = self.dispatches[body.dispatch_id]
        values: Iterator[Values] = iter(draft.texts.values)
        texts = draft.texts.outcomes or (OutcomeTexts(),) * len(body.calls)
        # Before the events: the event that ends a child's work shows values of the outcome in the same fact.
        outcomes = {
            (each.place, each.revision): dispatch.outcome(each, said, self._row_of(dispatch, each))
            for each, said in zip(body.calls, texts, strict=True)
        }
        first = dispatch.opened.first_step
        for each in body.progress:
            settled = next((outcome for (place, _), outcome in outcomes.items() if place == each.step - first), None)
            yield from self._events(each, draft, values, NO_VALUES, settled_as(settled))
        for call in body.calls:
            outcome = outcomes[call.place, call.revision]
            if call.outcome is Outcome.SUSPENDED and call.ran:
                # The question is a value of the child's event, so that it is erased with the texts of the event.
                outcome = msgspec.structs.replace(outcome, question=self.children[first + call.place].question)
            dispatch.keep(call, outcome)
            at = draft.at + call.after * MICROSECOND
            yield CallSettled(self.turn_id, body.dispatch_id, outcome, at, call.revision)

    def _answered(self, draft: Draft, body: facts.QuestionAnswered) -> QuestionAnswered:
        child = self.children[body.step]
        child.answered_by = AnsweredBy(body.by_turn, body.by_dispatch, body.by_place)
        return QuestionAnswered(self.turn_id, child.opened.child_id, child.answered_by, draft.at)

    def _scored(self, draft: Draft, body: facts.ScoreRecorded) -> ScoreRecorded:
        values = draft.texts.values
        score = ScoreRecorded(
            turn_id=self.turn_id,
            dispatch_id=body.dispatch_id,
            call_id=self.dispatches[body.dispatch_id].request.calls[body.place].call_id,
            score_id=body.score_id,
            name=body.name,
            value=body.value,
            source=body.source,
            recorded_at=draft.at,
            label=body.label,
            explanation=str(values[0][0]) if values and values[0] else "",
            by=body.by,
        )
        self.scores.append(score)
        return score

    def _row_of(self, dispatch: DispatchProjection, settled: Settlement) -> ChildOpened | None:
        return self.children[dispatch.opened.first_step + settled.place].opened if settled.ran else None

    def _ended(self, draft: Draft, body: facts.TurnEnded) -> Iterator[Record]:
        # `take` has bound the claims of this fact.
        claims = self._bind(None, None)
        texts = draft.texts.end or EndTexts()
        yield TurnEnded(
            turn_id=self.turn_id,
            episode_id=claims.episode_id,
            principal=claims.principal,
            fingerprint=texts.fingerprint,
            narration=texts.narration,
            close_reason=body.close_reason,
            ended_at=draft.at,
            user_message=texts.user_message,
        )
        yield routing_of(claims, self.dispatches, body, draft.at)


def _delegated(progress: Progress, starts: Sequence[ChildStart]) -> Values:
    start = next((each for each in starts if each.parent == progress.step), None)
    return NO_VALUES if start is None else delegated_as(start)


def delegated_as(start: ChildStart) -> Values:
    """Return the values of a delegating child's event about the child that starts."""
    return (start.child_id, start.slot, start.step)


def settled_as(outcome: CallOutcome | None) -> Values:
    """Return the values of an outcome in the event that ends a child's work."""
    if outcome is None:
        return NO_VALUES
    usage = outcome.usage
    spent = () if usage is None else (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
    # Without trailing None, like stored values, so that derived and stored events have the same details.
    return trimmed((outcome.outcome.value, len(outcome.answer.components), outcome.answer.data_unavailable, *spent))


def read(turn_id: TurnId, drafts: Sequence[Draft]) -> list[Record]:
    """Return the records of a turn's facts, in the order of the facts."""
    reading = TurnProjection(turn_id)
    return [record for draft in drafts for record in reading.take(draft)]
