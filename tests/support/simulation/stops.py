"""Who may have stopped a call, and when."""

from dataclasses import dataclass
from typing import Final

from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled
from sidecar.operations.requests import OnDisconnect
from tests.support.simulation.facts import INSTANT, NEVER, CallFacts, DispatchFacts, Facts
from tests.support.simulation.world import LIFETIME

UNRECORDED: Final = {"STORE_UNAVAILABLE", "RECORD_CONFLICT", "RUNS_ELSEWHERE"}


@dataclass(frozen=True, slots=True)
class Stop:
    """A reason to stop.

    Attributes:
        certain: the call has to stop; else something at the same time may have prevented it.
        latest: until when it may take effect, if that is not known; else as `at`.
    """

    at: float
    reason: str
    certain: bool = True
    latest: float = 0.0


def stops_of(facts: Facts, call: CallFacts) -> list[Stop]:
    """Return everything that may have stopped a call."""
    dispatch = call.dispatch
    stops = [Stop(dispatch.settle_at, "JOIN_DEADLINE")]
    for asked in facts.asked("cancel", dispatch.spec.dispatch_id):
        of_this_try = asked.asked_at >= dispatch.accepted_at - INSTANT  # an opening that failed may have been repeated
        # The work stops before the cancel is on record; one that could not be recorded may have stopped it, too.
        unrecorded = asked.refused is not None and asked.refused.reason in UNRECORDED
        if asked.detail == call.spec.call_id and (asked.refused is None or unrecorded) and of_this_try:
            certain = bool(asked.answer) and not _may_mean_another_try(dispatch, asked.asked_at)
            stops.append(Stop(asked.asked_at, "CALL_CANCELLED", certain))
    stops += _abandonments(dispatch)
    for asked in facts.asked("end", call.turn.turn_id):
        refused = asked.refused is not None and asked.refused.reason in {"UNKNOWN_CHILD", "CHILD_CLOSED"}
        if not refused:
            stops.append(Stop(asked.asked_at, "TURN_OVER"))
    bound = next(iter(facts.asked("bind", call.turn.turn_id)))
    stops.append(Stop((bound.answered_at or 0.0) + LIFETIME, "TURN_OVER", certain=False))
    return stops


@dataclass(frozen=True, slots=True)
class Presence:
    """A time during which a client listened. `unclear`: seconds after it in which the sidecar may not know its end."""

    began: float
    end: float
    unclear: float

    @property
    def latest(self) -> float:
        """Return when the sidecar knows at the latest."""
        return self.end + self.unclear


def _abandonments(dispatch: DispatchFacts) -> list[Stop]:
    """Return the moments at which nobody listened any more, and what follows."""
    policy = dispatch.request.on_disconnect
    if policy is OnDisconnect.CONTINUE:
        return []
    present = [
        Presence(each.began_at, NEVER if each.left_at is None else each.left_at, each.unclear)
        for each in dispatch.listeners
    ]
    present += [
        Presence(each.asked_at, each.over_at, each.unclear)
        for each in dispatch.asked
        if each.what in ("dispatch", "resume") and each.refused is None
    ]
    stops = []
    for place, mine in enumerate(present):
        end, others = mine.end, [*present[:place], *present[place + 1 :]]
        if end == NEVER or end < dispatch.accepted_at - INSTANT:
            continue
        if any(each.began < end - INSTANT and each.end > end + INSTANT for each in others):
            continue
        unclear = max([mine.latest, *(each.latest for each in others if each.end <= end + INSTANT)])
        certain = unclear <= end + INSTANT
        if policy is OnDisconnect.CANCEL:
            close = any(abs(each.began - end) <= INSTANT and each.end > end + INSTANT for each in others)
            certain = certain and not close and not _may_mean_another_try(dispatch, end)
            stops.append(Stop(end, "CALL_CANCELLED", certain, unclear))
        elif dispatch.request.continue_for is not None:
            longer = dispatch.request.continue_for.total_seconds()
            back = any(end - INSTANT <= each.began <= end + longer + INSTANT for each in others)
            stops.append(Stop(end + longer, "CALL_CANCELLED", certain and not back, unclear + longer))
    return stops


def _may_mean_another_try(dispatch: DispatchFacts, at: float) -> bool:
    """Say whether an opening that failed, and was repeated at the same instant, may be what was meant."""
    tried = any(each.what == "dispatch" and each.refused is not None for each in dispatch.asked)
    return tried and at <= dispatch.accepted_at + INSTANT


def saving_until(facts: Facts, call: CallFacts, at: float) -> float:
    """Return until when an attempt was being put on record at `at`: whatever stops it takes effect only then."""
    return max(
        [at]
        + [
            append.over_at
            for append in facts.seen.store.appends
            for record in append.records
            if append.submitted_at <= at <= append.over_at
            and isinstance(record, ChildEvent)
            and record.child_id == call.routed.child_id
            and record.name == "agent.subagent_attempt"
            and not any(_is_outcome_of(call, each) for each in append.records)
        ]
    )


def _is_outcome_of(call: CallFacts, record: object) -> bool:
    return isinstance(record, CallSettled) and record.outcome.call_id == call.spec.call_id
