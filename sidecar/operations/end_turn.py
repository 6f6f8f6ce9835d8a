"""End a turn: stop what runs, give every child its verdict, close it, and write the routing decision.

The same work is done by the reaper for a parent that is lost. What is to be written is prepared once, so that an end
that failed to be recorded can be repeated and writes the same.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import RecordConflict, StoreUnavailable, SubagentsError, TurnIdReused
from sidecar.core.executing.events import COMPLETED_STATUS, PARENT, SIDECAR
from sidecar.core.executing.records import CallSettled, Record, TurnEnded
from sidecar.core.executing.states import ExecutionState
from sidecar.core.history.layering import refuse_component_data
from sidecar.core.identifiers import CallId, ChildId
from sidecar.operations.children import Child
from sidecar.operations.endings import Ending
from sidecar.operations.find_turn import FindTurn
from sidecar.operations.history_capture import HistoryCapture, history_of
from sidecar.operations.live_dispatch import LiveDispatch
from sidecar.operations.opening_records import end_fingerprint
from sidecar.operations.outside import Outside
from sidecar.operations.recording import in_time, put_on_record
from sidecar.operations.requests import EndTurnRequest, Integration, Verdict
from sidecar.operations.restoring import RestoreTurn, unfinished_outcomes
from sidecar.operations.routing import routed_calls
from sidecar.operations.rules import DispatchRules
from sidecar.operations.settle_child import (
    child_named,
    close_unintegrated,
    fail_unfinished,
    final_status_of,
    integrate,
    refuse_contradiction,
    summary_of,
    taking,
)
from sidecar.operations.turn_ends import TurnClosed
from sidecar.operations.turns import Turn, Turns
from subagents_errors import CallFailure

ENDED = "ended"
PARENT_LOST = "parent_lost"
ASSERTED_BY = "orchestrator"
"""The principal is the orchestrator's word over the authenticated listener; verified user tokens come later."""


TRIES = 3
"""How often the end is laid out anew because the record says otherwise; each time the record has gone on."""

Finding = tuple[FindTurn, RestoreTurn]


class EndTurn:
    """The operation, and the reaper's hand."""

    def __init__(
        self, rules: DispatchRules, outside: Outside, turns: Turns, captures: HistoryCapture, finding: Finding
    ) -> None:
        """Join the parts."""
        self._rules = rules
        self._out = outside
        self._turns = turns
        self._captures = captures
        self._find, self._restore = finding

    async def __call__(self, request: EndTurnRequest) -> tuple[TurnClosed, bool]:
        """End the turn; also says whether an earlier request did.

        Raises:
            TurnIdReused: it was ended with other contents.
            ChildClosed: a verdict contradicts the one that the child was closed with; nothing is changed then.
            UnknownChild: a verdict names a child that the turn does not have; nothing is changed then.
            InlineComponent: the narration holds component data; nothing is changed then. Source: PC1-FR-10a.
            StoreUnavailable: the end is not on record; repeat the request.
            SurfaceTokenInvalid, SurfaceTokenExpired.
        """
        refuse_component_data("narration", request.narration)
        turn = await self._find(request.surface_token)
        if any(each.child_id not in turn.children for each in request.integrations) and turn.closed is None:
            await self._restore(turn)
        if turn.closed is not None:
            self.report(turn)
            return _ended_before(turn, request), True
        if turn.closing_request is not None and turn.closing_request != request:
            raise TurnIdReused("the turn was ended with other contents", metadata={"turn_id": turn.turn_id})
        for integration in request.integrations:
            refuse_contradiction(child_named(turn, integration.child_id), integration.verdict)
        closed = await self._end(turn, request)
        return (_ended_before(turn, request), True) if turn.closed_as is not None else (closed, False)

    async def reap(self, turn: Turn) -> None:
        """End a turn whose parent is lost; if the store is away, the next round tries again."""
        try:
            await self._end(turn, None)
        except SubagentsError as error:
            self._out.recorder.anomaly("reap_failed", f"{turn.turn_id}: {error.reason}")

    async def _end(self, turn: Turn, request: EndTurnRequest | None) -> TurnClosed:
        if turn.closed is not None:
            return turn.closed
        if turn.closing is None or turn.closing.settled:
            turn.closing = Ending()
            turn.closing_request = turn.closing_request or request
            self._out.spawner.spawn(self._close(turn, turn.closing), f"end {turn.turn_id}")
        ended = await turn.closing.wait()
        if isinstance(ended, SubagentsError):
            raise ended
        return ended

    async def _close(self, turn: Turn, closing: Ending[TurnClosed | SubagentsError]) -> None:
        """Do it, and tell whoever waits; runs to its end whatever becomes of them."""
        await self._stop(turn)
        refused = await self._put_on_record(turn)
        if turn.closed is None:  # else by another sidecar, or by this one without a confirmation, as the record says
            if refused is not None:
                closing.settle(refused)
                return
            for child in turn.children.values():
                child.unsaved.clear()
            turn.closed = turn.prepared
            for dispatch_id, outcomes in turn.settling.items():
                _finish(turn.dispatches[dispatch_id], outcomes)
        if turn.closed is not None:
            closing.settle(turn.closed)
            self.report(turn)
            self._turns.ended(turn)

    def report(self, turn: Turn) -> None:
        """Report the routing decision and have the history kept, once, if this process wrote the end."""
        if turn.reported or turn.closed is None or turn.prepared is None:
            return
        if turn.closed.routing == turn.prepared.routing:
            turn.reported = True
            self._out.recorder.turn_routed(turn.closed.routing)
            self._capture(turn, turn.closed)

    async def _put_on_record(self, turn: Turn) -> SubagentsError | None:
        """Write the end; where the record says otherwise than what is known here, read it and lay the end out anew."""
        store, seconds = self._out.store, self._rules.record_timeout.total_seconds()
        refused: SubagentsError | None = None
        for _ in range(TRIES):
            try:
                if turn.uncertain:
                    await in_time(store.append(()), seconds)  # whatever was handed over before is decided then
                if turn.uncertain or (store.waits and not turn.closing_records):
                    await self._restore(turn)  # another sidecar may have carried out a dispatch of the turn, too
                    turn.uncertain = False
            except StoreUnavailable as away:
                return away
            if turn.closed is not None:
                return None
            if not turn.closing_records:
                turn.prepared = self._prepare(turn, turn.closing_request)
            refused = await put_on_record(store, turn.closing_records, self._out.clock.monotonic() + seconds)
            if not isinstance(refused, RecordConflict):
                return refused
            turn.prepared, turn.closing_records, turn.uncertain = None, [], True
            turn.settling.clear()
        return refused

    def _capture(self, turn: Turn, closed: TurnClosed) -> None:
        """Have the turn's history kept, beside its result and without delaying it. Source: PC1-D-12."""
        ended = turn.closing_request if isinstance(turn.closing_request, EndTurnRequest) else None
        narration, said = (ended.narration, ended.user_message) if ended else ("", "")
        self._captures.capture(history_of(turn, closed.routing.ended_at, narration, said))

    async def _stop(self, turn: Turn) -> None:
        """Stop what runs and wait until it has settled, which takes no longer than recording the outcomes."""
        dispatches = list(turn.dispatches.values())
        for dispatch in dispatches:  # all before waiting for any: none may run on while another is being recorded
            dispatch.stop_all(CallFailure.TURN_OVER)
        for dispatch in dispatches:
            if await dispatch.opened.wait() is None and dispatch.runs_here:
                await dispatch.finished.wait()

    def _prepare(self, turn: Turn, request: object) -> TurnClosed:
        """Give every child its verdict, in emission order, and lay out what is to be written. No await in here."""
        now = self._out.clock.now()
        ended = request if isinstance(request, EndTurnRequest) else None
        verdicts = {each.child_id: each for each in ended.integrations} if ended else {}
        taken = self._settle_unfinished(turn, now)
        children = sorted(turn.children.values(), key=lambda child: child.step_idx)
        for child in children:
            if child.log.state is not ExecutionState.CLOSED:
                _settle(child, verdicts, now, lost=ended is None)
        routing = self._routing(turn, now, ended)
        records: list[Record] = [record for child in children for record in child.take_unsaved()]
        turn.closing_records = [*taken, *turn.late, *records, _turn_ended(turn, now, ended), routing]
        return TurnClosed(tuple(summary_of(child) for child in children), routing)

    def _settle_unfinished(self, turn: Turn, now: datetime) -> list[Record]:
        """Settle what was opened elsewhere and is not going on here; everything of the turn is this process's then."""
        records: list[Record] = []
        for dispatch in turn.dispatches.values():
            records.extend(taking(dispatch, self._out.store, now))
            if dispatch.finished.settled:
                continue
            outcomes = {
                each.call_id: each for each in unfinished_outcomes(dispatch, turn.children_of(dispatch.dispatch_id))
            }
            records.extend(CallSettled(turn.turn_id, dispatch.dispatch_id, each, now) for each in outcomes.values())
            turn.settling[dispatch.dispatch_id] = outcomes
        for child in turn.children.values():
            fail_unfinished(child, now, CallFailure.TURN_OVER)
        return records

    def _routing(self, turn: Turn, now: datetime, ended: EndTurnRequest | None) -> RoutingRecord:
        """Return the turn's routing decision. Source: PC2-FR-15, TN-35."""
        claims, surface = turn.claims, turn.surface
        undispatched = ended.declared_intent_count if ended else 0
        dispatched = [dispatch.intents for dispatch in turn.dispatches.values()]
        intents = (*dispatched, *([IntentReport(undispatched, 0, False, False)] if undispatched else ()))
        calls = [
            call
            for dispatch in turn.dispatches.values()
            for call in routed_calls(dispatch, now, turn.settling.get(dispatch.dispatch_id, {}))
        ]
        return RoutingRecord(
            turn_id=turn.turn_id,
            episode_id=claims.episode_id,
            orchestrator_id=surface.orchestrator.definition.id,
            candidates=surface.candidates,
            calls=tuple(sorted(calls, key=lambda call: call.emission_index)),
            intents=intents,
            fan_out_cap=surface.fan_out_cap,
            cap=worst([dispatch.plan.cap for dispatch in turn.dispatches.values()]),
            cohort=surface.cohort,
            binding_digest=surface.binding_digest,
            bound_at=claims.bound_at,
            ended_at=now,
            close_reason=ENDED if ended else PARENT_LOST,
            overhead=turn.overhead,
            principal_asserted_by=ASSERTED_BY,
            gate_passed=_gate_passed(turn),
        )


def _settle(child: Child, verdicts: Mapping[ChildId, Integration], now: datetime, *, lost: bool) -> None:
    """Close one child: by the parent's verdict, by default, or because nobody is there to give one."""
    verdict = verdicts.get(child.child_id)
    if child.outcome is None:  # brought back from the record, where nobody finished it
        close_unintegrated(child, now, PARENT_LOST if lost else "execution_failed", SIDECAR if lost else PARENT)
    elif lost:
        close_unintegrated(child, now, PARENT_LOST, SIDECAR)
    elif verdict is None and not child.contract.execution.close_on_completion:
        close_unintegrated(child, now, "turn_ended", PARENT)
    else:
        integrate(child, verdict or Integration(child.child_id, Verdict.AUTOMATIC), now)


def _finish(dispatch: LiveDispatch, outcomes: Mapping[CallId, CallOutcome]) -> None:
    """Tell how a dispatch ended that nobody went on with; `outcomes` are on record."""
    if not dispatch.finished.settled:
        dispatch.take_in(outcomes, {})
        dispatch.finish(dispatch.joined(timedelta(0)))


def _ended_before(turn: Turn, request: EndTurnRequest) -> TurnClosed:
    """Return how the turn ended. Raises `TurnIdReused` if that was asked for with other contents."""
    if turn.closed_as is None:
        other = turn.closing_request is not None and turn.closing_request != request
    else:
        other = turn.closed_as not in {"", end_fingerprint(request)}
    if other or turn.closed is None:
        raise TurnIdReused("the turn was ended with other contents", metadata={"turn_id": turn.turn_id})
    return turn.closed


def _turn_ended(turn: Turn, now: datetime, request: EndTurnRequest | None) -> TurnEnded:
    return TurnEnded(
        turn_id=turn.turn_id,
        episode_id=turn.claims.episode_id,
        principal=turn.claims.principal,
        fingerprint=end_fingerprint(request) if request else "",
        narration=request.narration if request else "",
        close_reason=ENDED if request else PARENT_LOST,
        ended_at=now,
        user_message=request.user_message if request else "",
    )


def _gate_passed(turn: Turn) -> bool:
    """Say whether every dispatch has as many completed children as its join policy asks for. Source: SX-35, TN-23."""
    for dispatch in turn.dispatches.values():
        called = turn.children_of(dispatch.dispatch_id)
        completed = sum(1 for child in called if final_status_of(child) == COMPLETED_STATUS)
        needed = dispatch.request.join.min_success
        if completed < (len(dispatch.plan.run) if needed is None else needed):
            return False
    return True
