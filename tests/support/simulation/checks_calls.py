"""Promises about calls: which run, when, and what becomes of them."""

from collections.abc import Iterator

from sidecar.core.dispatching.outcomes import Outcome
from tests.support.simulation.facts import INSTANT, NEVER, CallFacts, DispatchFacts, Facts, opened_unconfirmed
from tests.support.simulation.schedule import CallKind, DispatchSpec
from tests.support.simulation.stops import saving_until

AFTER_A_STOP = 0.1
READ_AGAIN = 4.0
"""Seconds that it may take to find out that a dispatch is open although the store did not say so."""


def every_call_has_one_outcome(facts: Facts) -> Iterator[str]:
    """One outcome per call, in emission order, the same for everybody who is told."""
    for dispatch in facts.dispatches:
        routed = [
            call for call in facts.routing[dispatch.turn.turn_id].calls if call.dispatch_id == dispatch.spec.dispatch_id
        ]
        wanted = [call.call_id for call in dispatch.spec.calls]
        if [call.call_id for call in routed] != wanted:
            yield f"{dispatch.spec.dispatch_id}: calls {wanted}, routed {[call.call_id for call in routed]}"
        for listener in dispatch.listeners:
            if listener.result is None:
                continue
            told = [(each.call_id, each.outcome, each.reason, each.child_id) for each in listener.result.outcomes]
            if told != [(each.call_id, each.outcome, each.reason, each.child_id) for each in routed]:
                yield f"{dispatch.spec.dispatch_id}: told {told}, routed {routed}"
            indexes = [each.emission_index for each in listener.result.outcomes]
            if indexes != sorted(indexes) or indexes != [each.emission_index for each in routed]:
                yield f"{dispatch.spec.dispatch_id}: not in emission order: {indexes}"


def emission_indexes_are_unique(facts: Facts) -> Iterator[str]:
    """No two calls of a turn have the same place."""
    for turn_id, record in facts.routing.items():
        indexes = [call.emission_index for call in record.calls]
        if len(set(indexes)) != len(indexes):
            yield f"{turn_id}: emission indexes {indexes}"


def refused_and_dropped_never_run(facts: Facts) -> Iterator[str]:
    """Only calls that fit run; the others have the outcome that says why."""
    wanted = {CallKind.UNKNOWN_TOOL: "UNKNOWN_TOOL", CallKind.BAD_ARGUMENTS: "ARGUMENTS_INVALID"}
    for call in facts.calls():
        outcome, reason = call.routed.outcome, call.routed.reason
        if call.spec.kind is not CallKind.FIT and (outcome, reason) != (Outcome.REFUSED, wanted[call.spec.kind]):
            yield f"{call.name} is {call.spec.kind}"
        if call.spec.kind is CallKind.FIT and outcome is Outcome.REFUSED:
            yield f"{call.name} was refused, and fits"
        if call.runs and outcome in (Outcome.REFUSED, Outcome.DROPPED, Outcome.NOT_STARTED):
            yield f"{call.name} ran"


def dropped_is_the_surplus(facts: Facts) -> Iterator[str]:
    """Dropped are the last calls, exactly as many as there were too many."""
    for dispatch in facts.dispatches:
        fit = [call for call in dispatch.calls if call.spec.kind is CallKind.FIT]
        dropped = [call.routed.outcome is Outcome.DROPPED for call in fit]
        if dropped != sorted(dropped):
            yield f"{dispatch.spec.dispatch_id}: dropped {dropped}"
        surely, perhaps = _occupied(facts, dispatch)
        cap = facts.seen.schedule.tuning.cap
        least, most = max(0, len(fit) - max(0, cap - surely)), max(0, len(fit) - max(0, cap - perhaps))
        if not least <= sum(dropped) <= most:
            yield f"{dispatch.spec.dispatch_id}: {len(fit)} fit, {sum(dropped)} dropped, not {least} to {most}"


def _occupied(facts: Facts, mine: DispatchFacts) -> tuple[int, int]:
    """Return how many other calls of the turn surely, and at most, took a place when the dispatch was accepted."""
    surely = perhaps = 0
    for other in facts.dispatches:
        if other.turn is not mine.turn or other is mine:
            continue
        for call in other.calls:
            if call.spec.kind is not CallKind.FIT or call.routed.outcome is Outcome.DROPPED:
                continue
            first = other.confirmed and other.accepted_at < mine.accepted_at - INSTANT
            maybe_first = other.accepted_at <= mine.accepted_at + INSTANT
            decided = call.decided_at if call.decided_at is not None and call.runs else None
            if decided is None:
                perhaps += maybe_first
                continue
            surely += first and decided > mine.accepted_at + INSTANT
            perhaps += maybe_first and other.record_by + INSTANT >= mine.accepted_at
    return surely, perhaps + sum(_withdrawn(facts, spec, mine) for spec in mine.turn.dispatches)


def _withdrawn(facts: Facts, spec: DispatchSpec, mine: DispatchFacts) -> int:
    """Return how many places may have been taken by a dispatch that the store did not let begin."""
    if spec is mine.spec:
        return 0
    tried = [
        asked
        for asked in facts.asked("dispatch", spec.dispatch_id)
        if asked.answer is None and asked.asked_at <= mine.accepted_at + INSTANT
    ]
    return sum(call.kind is CallKind.FIT for call in spec.calls) if tried else 0


def the_cap_holds(facts: Facts) -> Iterator[str]:
    """Never more sub-agents at the same time in a turn than the cap; nor in a dispatch than it allows."""
    cap = facts.seen.schedule.tuning.cap
    for turn_id, calls in facts.of_turns().items():
        most = _most_at_once(calls)
        if most > cap:
            yield f"{turn_id}: {most} at once, cap {cap}"
    for dispatch in facts.dispatches:
        most, allowed = _most_at_once(dispatch.calls), dispatch.request.join.max_parallel
        if allowed is not None and most > allowed:
            yield f"{dispatch.spec.dispatch_id}: {most} at once, max_parallel {allowed}"


def _most_at_once(calls: list[CallFacts]) -> int:
    spans = [(run.began_at, run.over_at) for call in calls for run in call.runs if run.over_at > run.began_at + INSTANT]
    marks = sorted([(began + INSTANT, 1) for began, _ in spans] + [(over, -1) for _, over in spans])
    now = most = 0
    for _, change in marks:
        now += change
        most = max(most, now)
    return most


def owners_take_turns(facts: Facts) -> Iterator[str]:
    """Calls that own something in common run one after the other, in emission order.

    One whose opening nobody confirmed may be found on record later: then only that they are apart is promised.
    """
    for calls in facts.of_turns().values():
        ran = sorted((call for call in calls if call.runs), key=lambda call: call.routed.emission_index)
        for place, first in enumerate(ran):
            for second in ran[place + 1 :]:
                if not _overlap(first, second):
                    continue
                last = first.runs[-1].over_at
                if first.runs[0].began_at > second.runs[0].began_at and opened_unconfirmed(facts, first):
                    if first.runs[0].began_at < second.runs[-1].over_at - INSTANT:
                        yield f"{first.name} began before {second.name} was over"
                    continue
                if second.runs[0].began_at < max(first.runs[0].began_at, last if last < NEVER else 0) - INSTANT:
                    yield f"{second.name} began before {first.name} was over"


def _overlap(first: CallFacts, second: CallFacts) -> bool:
    mine, others = first.spec.card, second.spec.card
    if mine is None or others is None:
        return False
    shared = [each for each in mine.definition.ownership if each in others.definition.ownership]
    return mine.definition.slot == others.definition.slot or bool(shared)


def outcomes_come_in_time(facts: Facts) -> Iterator[str]:
    """Whoever reads quickly has the result before the client's deadline."""
    for dispatch in facts.dispatches:
        for call in dispatch.calls:
            ran = call.runs[0].began_at if call.runs else NEVER
            due = saving_until(facts, call, max(dispatch.settle_at, ran)) if call.runs else NEVER
            if call.runs and dispatch.confirmed and (call.decided_at or NEVER) > due + AFTER_A_STOP:
                yield f"{call.name} was decided at {call.decided_at}, to be settled at {dispatch.settle_at}"
        for listener in dispatch.listeners:
            at = listener.frames[-1][0] if listener.frames else 0.0
            patience = AFTER_A_STOP if dispatch.confirmed else READ_AGAIN
            late = at > max(dispatch.record_by, listener.began_at) + patience
            if listener.result is not None and not listener.slow and late:
                yield f"{dispatch.spec.dispatch_id}: result at {at}, due at {dispatch.record_by}"
            if listener.result is None and not listener.cut:
                yield f"{dispatch.spec.dispatch_id}: a listener was left without the result"


def same_id_same_request(facts: Facts) -> Iterator[str]:
    """Whoever is attached to a dispatch or turn asked for exactly that one."""
    for asked in facts.seen.watched.asked:
        if asked.what == "dispatch" and asked.answer is not None and asked.answer.dispatch.request != asked.about[0]:
            yield f"{asked.of}: attached to a dispatch with other contents"
