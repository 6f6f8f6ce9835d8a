"""What was seen of one run, sorted by dispatch and call; nothing here says what should have been."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled, ChildOpened, DispatchOpened, Record
from sidecar.operations.requests import DispatchRequest
from tests.support.simulation.clients import Asked, Listener
from tests.support.simulation.runner import RunSeen
from tests.support.simulation.schedule import CallSpec, DispatchSpec, TurnSpec
from tests.support.simulation.world import JOIN_TIMEOUT, MARGIN, Seen

NEVER = float("inf")
INSTANT = 1e-6
"""Seconds within which two things happen at the same time."""


@dataclass(slots=True)
class CallFacts:
    """One call of an accepted dispatch.

    Attributes:
        routed: what the routing record says of it.
        settled: what is on record of its outcome.
        decided_at: when its outcome was first sent to the store.
    """

    spec: CallSpec
    turn: TurnSpec
    dispatch: "DispatchFacts"
    routed: RoutedCall
    runs: list[RunSeen]
    settled: CallSettled | None
    decided_at: float | None

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.spec.key} ({self.routed.outcome}, {self.routed.reason})"


@dataclass(slots=True)
class DispatchFacts:
    """One accepted dispatch.

    Attributes:
        opened_at: when its children were on record, or later.
        confirmed: the store said so in time.
    """

    spec: DispatchSpec
    turn: TurnSpec
    request: DispatchRequest
    accepted_at: float
    opened_at: float
    settle_at: float
    calls: list[CallFacts]
    listeners: list[Listener]
    asked: list[Asked]
    confirmed: bool

    @property
    def record_by(self) -> float:
        """Until when outcomes may be recorded."""
        return self.settle_at + MARGIN / 2


@dataclass(slots=True)
class Facts:
    """One run.

    Attributes:
        records: what the journal says, by id; to read it takes longer than all checks.
    """

    seen: Seen
    records: Mapping[str, Record]
    routing: Mapping[str, RoutingRecord]
    dispatches: list[DispatchFacts]
    events: dict[str, list[ChildEvent]]
    opened: Mapping[str, ChildOpened]

    def calls(self) -> Iterator[CallFacts]:
        """Yield every call of every accepted dispatch."""
        for dispatch in self.dispatches:
            yield from dispatch.calls

    def of_turns(self) -> dict[str, list[CallFacts]]:
        """Return the calls by turn."""
        turns: dict[str, list[CallFacts]] = {}
        for call in self.calls():
            turns.setdefault(call.turn.turn_id, []).append(call)
        return turns

    def asked(self, what: str, of: str) -> list[Asked]:
        """Return what clients asked of one thing."""
        return [each for each in self.seen.watched.asked if each.what == what and each.of == of]


def facts_of(seen: Seen) -> Facts:
    """Sort what was seen."""
    records = seen.store.records
    said = list(records.values())
    routing: dict[str, RoutingRecord] = {record.turn_id: record for record in said if isinstance(record, RoutingRecord)}
    events: dict[str, list[ChildEvent]] = {}
    for record in said:
        if isinstance(record, ChildEvent):
            events.setdefault(record.child_id, []).append(record)
    opened: dict[str, ChildOpened] = {record.child_id: record for record in said if isinstance(record, ChildOpened)}
    facts = Facts(seen, records, routing, [], events, opened)
    decided = _decided(seen)
    for turn in seen.schedule.turns:
        for spec in turn.dispatches:
            dispatch = _dispatch(facts, turn, spec)
            if dispatch is not None:
                facts.dispatches.append(dispatch)
                _add_calls(facts, dispatch, decided)
    return facts


def _decided(seen: Seen) -> dict[str, float]:
    decided: dict[str, float] = {}
    for append in seen.store.appends:
        for record in append.records:
            kept = seen.store.kept.get(record.record_id)
            if isinstance(record, CallSettled) and kept in (None, record):
                decided.setdefault(record.record_id, append.submitted_at)
    return decided


def _dispatch(facts: Facts, turn: TurnSpec, spec: DispatchSpec) -> DispatchFacts | None:
    """Return the dispatch if it was accepted and carried out."""
    seen = facts.seen
    asked = [each for each in seen.watched.asked if each.of == spec.dispatch_id]
    began = [each for each in asked if each.what == "dispatch" and each.refused is None]
    if not began or not any(call.dispatch_id == spec.dispatch_id for call in _routed(facts, turn)):
        return None
    first = _that_opened(seen, turn, spec, asked)
    if first is None:
        first = next((each for each in began if each.answer is not None and not each.answer.attached), None)
    if first is None:  # whoever began it left before the answer; somebody else may have been told with what it began
        told = next((each.answer.dispatch.request for each in asked if hasattr(each.answer, "dispatch")), None)
        first = next((each for each in began if told is None or each.about[0] == told), began[0])
    request, left = first.about
    bounds = [timedelta(seconds=JOIN_TIMEOUT), request.join.timeout, left and left - timedelta(seconds=MARGIN)]
    seconds = min(bound for bound in bounds if bound is not None).total_seconds()
    return DispatchFacts(
        spec=spec,
        turn=turn,
        request=request,
        accepted_at=first.asked_at,
        opened_at=_opened_at(facts, first),
        settle_at=first.asked_at + seconds,
        calls=[],
        listeners=[each for each in seen.watched.listeners if each.dispatch_id == spec.dispatch_id],
        asked=asked,
        confirmed=first.refused is None and _confirmed(seen, turn, spec),
    )


def _that_opened(seen: Seen, turn: TurnSpec, spec: DispatchSpec, asked: list[Asked]) -> Asked | None:
    """Return the request whose opening is on record, even if the store did not say so in time.

    Of those that were sent at that instant, one with other contents opened nothing: it was refused for its id. One with
    the same contents has the same deadline, so that it does not matter which of them it was.
    """
    kept = seen.store.kept.get(f"{turn.turn_id}/{spec.dispatch_id}")
    opening = [append.submitted_at for append in seen.store.appends if kept in append.records]
    sent = [each for each in asked if each.what == "dispatch" and each.asked_at in opening]
    same = [each for each in sent if isinstance(kept, DispatchOpened) and _contents(each.about[0]) == kept.request_json]
    return next((each for each in same if each.answer is not None and not each.answer.attached), next(iter(same), None))


def _contents(request: DispatchRequest) -> str:
    """Return a request as it is on record."""
    return msgspec.json.encode(msgspec.structs.replace(request, surface_token="")).decode()


def _confirmed(seen: Seen, turn: TurnSpec, spec: DispatchSpec) -> bool:
    kept = seen.store.kept.get(f"{turn.turn_id}/{spec.dispatch_id}")
    opening = [append for append in seen.store.appends if kept in append.records]
    return bool(opening) and opening[0].answered_at is not None and opening[0].refused is None


def _opened_at(facts: Facts, first: Asked) -> float:
    if first.answered_at is not None:
        return first.answered_at
    at_once = [append for append in facts.seen.store.appends if abs(append.submitted_at - first.asked_at) < INSTANT]
    return max([first.asked_at, *(facts.seen.store.committed_at(append) for append in at_once)])


def _routed(facts: Facts, turn: TurnSpec) -> tuple[RoutedCall, ...]:
    record = facts.routing.get(turn.turn_id)
    return record.calls if record else ()


def _add_calls(facts: Facts, dispatch: DispatchFacts, decided: dict[str, float]) -> None:
    by_id: dict[str, RoutedCall] = {}
    for routed in _routed(facts, dispatch.turn):
        if routed.dispatch_id == dispatch.spec.dispatch_id:
            by_id.setdefault(routed.call_id, routed)
    for spec in dispatch.spec.calls:
        if spec.call_id not in by_id:
            continue
        call_record = f"{dispatch.turn.turn_id}/{dispatch.spec.dispatch_id}/{spec.call_id}"
        settled = facts.records.get(f"{call_record}/1") or facts.records.get(f"{call_record}/0")
        runs = [run for run in facts.seen.runner.runs if run.key == spec.key]
        facts_of_call = CallFacts(
            spec=spec,
            turn=dispatch.turn,
            dispatch=dispatch,
            routed=by_id[spec.call_id],
            runs=runs,
            settled=settled if isinstance(settled, CallSettled) else None,
            decided_at=decided.get(f"{call_record}/0"),
        )
        dispatch.calls.append(facts_of_call)


def opened_unconfirmed(facts: Facts, call: CallFacts) -> bool:
    """Say whether the store did not confirm the opening of the call's dispatch, or of its child, and kept it."""
    return not call.dispatch.confirmed or any(
        append.refused is not None or append.answered_at is None
        for append in facts.seen.store.appends
        for record in append.records
        if isinstance(record, ChildOpened) and record.child_id == call.routed.child_id
    )
