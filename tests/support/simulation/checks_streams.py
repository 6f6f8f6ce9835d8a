"""Promises about what listeners of a dispatch are told."""

from collections import Counter
from collections.abc import Iterator

from sidecar.core.dispatching.frames import CallState, CallStateChanged, DispatchEvent, Gap, StatusUpdate
from sidecar.core.dispatching.outcomes import Outcome
from tests.support.simulation.clients import Listener
from tests.support.simulation.facts import INSTANT, CallFacts, DispatchFacts, Facts
from tests.support.simulation.world import BURST, PER_SECOND

PASSED_ON_AS = {
    "searching_offers": "searching_offers",
    "thinking_hard": "still_working",
    "checking_stock": "checking_stock",
    "still_working": "",
}


def frames_are_well_formed(facts: Facts) -> Iterator[str]:
    """The snapshot comes first and once, the result last and once."""
    for listener in facts.seen.watched.listeners:
        frames = [frame for _, frame in listener.frames]
        snapshots = [place for place, frame in enumerate(frames) if frame.snapshot is not None]
        results = [place for place, frame in enumerate(frames) if frame.result is not None]
        if frames and snapshots != [0]:
            yield f"{listener.dispatch_id}: snapshots in frames {snapshots}"
        if results not in ([], [len(frames) - 1]):
            yield f"{listener.dispatch_id}: results in frames {results} of {len(frames)}"
        if any(frame.snapshot is None and frame.result is None and not frame.events for frame in frames):
            yield f"{listener.dispatch_id}: an empty frame"


def streams_have_no_holes(facts: Facts) -> Iterator[str]:
    """Sequences ascend one by one from where the listener asked; what is missing is declared."""
    for listener in facts.seen.watched.listeners:
        if not listener.frames or listener.frames[0][1].snapshot is None:
            continue
        at = listener.frames[0][1].snapshot.sequence
        if at > listener.after:
            yield f"{listener.dispatch_id}: began after {at}, asked for after {listener.after}"
        for event in _events(listener):
            first = event.what.first if isinstance(event.what, Gap) else event.sequence
            if first != at + 1 or (isinstance(event.what, Gap) and event.what.last != event.sequence):
                yield f"{listener.dispatch_id}: event {event.sequence} ({event.what}) after {at}"
            at = event.sequence


def listeners_see_the_same(facts: Facts) -> Iterator[str]:
    """The same sequence is the same event for everybody, and everybody ends with the same one."""
    for dispatch in facts.dispatches:
        known: dict[int, DispatchEvent] = {}
        newest = {}
        for listener in dispatch.listeners:
            for event in _events(listener):
                if not isinstance(event.what, Gap) and known.setdefault(event.sequence, event) != event:
                    yield f"{dispatch.spec.dispatch_id}: two events with sequence {event.sequence}"
            if listener.result is not None and listener.frames[0][1].snapshot is not None:
                last = [event.sequence for event in _events(listener)]
                newest[max([listener.frames[0][1].snapshot.sequence, *last])] = True
        if len(newest) > 1:
            yield f"{dispatch.spec.dispatch_id}: streams end at {sorted(newest)}"


def calls_run_and_settle_in_streams(facts: Facts) -> Iterator[str]:
    """A whole stream tells of each call once that it settled, with its outcome, and before that it ran, if it did."""
    for dispatch in facts.dispatches:
        for listener in _whole(dispatch):
            told: dict[str, list[CallStateChanged]] = {}
            for event in _events(listener):
                if isinstance(event.what, CallStateChanged):
                    told.setdefault(event.what.call_id, []).append(event.what)
            for call in dispatch.calls:
                states = [
                    (each.state, each.outcome and each.outcome.outcome) for each in told.get(call.spec.call_id, [])
                ]
                if states not in _possible(call):
                    yield f"{call.name}: told {states}"
            ended = listener.result.outcomes if listener.result is not None else ()
            for outcome in ended:
                if any(each.outcome not in (None, outcome) for each in told.get(outcome.call_id, [])):
                    yield f"{dispatch.spec.dispatch_id}: {outcome.call_id} was told another outcome than the result has"


def _possible(call: CallFacts) -> list[list[tuple[CallState, Outcome | None]]]:
    settled = (CallState.SETTLED, call.routed.outcome)
    if call.routed.outcome in (Outcome.DROPPED, Outcome.REFUSED):
        return [[]]
    if call.routed.outcome is Outcome.NOT_STARTED:
        return [[settled]]
    return [[(CallState.RUNNING, None), settled]]


def progress_follows_the_policy(facts: Facts) -> Iterator[str]:
    """Known types arrive as the policy says and within the rate limit; nothing that is gathered is lost."""
    for dispatch in facts.dispatches:
        for listener in _whole(dispatch):
            told: Counter[str] = Counter()
            for event in _events(listener):
                if isinstance(event.what, StatusUpdate):
                    told[event.what.type] += event.what.count
                    if any(len(value) > 256 for value in event.what.attributes.values()):
                        yield f"{dispatch.spec.dispatch_id}: an attribute without bound"
            least, most = _passed_on(dispatch)
            for kind in sorted({*told, *least}):
                if not least[kind] <= told[kind] <= most[kind]:
                    yield f"{dispatch.spec.dispatch_id}: {told[kind]} {kind}, not {least[kind]} to {most[kind]}"


def _passed_on(dispatch: DispatchFacts) -> tuple[Counter[str], Counter[str]]:
    """Return how many reports of each type must, and may, be passed on: a bucket per call, worked out again."""
    least: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for call in dispatch.calls:
        level, filled_at = float(BURST), None
        certain = True
        for run in call.runs:
            for at, kind in run.reports:
                if at > run.over_at + INSTANT or kind not in PASSED_ON_AS:
                    continue
                certain = certain and at < min(run.over_at, call.decided_at or 0.0) - INSTANT
                level = min(float(BURST), level + (at - (at if filled_at is None else filled_at)) * PER_SECOND)
                filled_at = at
                if level < 1 - INSTANT:
                    continue
                level -= 1
                passed = PASSED_ON_AS[kind]
                if passed:
                    most[passed] += 1
                    least[passed] += certain
    return least, most


def _events(listener: Listener) -> list[DispatchEvent]:
    return [event for _, frame in listener.frames for event in frame.events]


def _whole(dispatch: DispatchFacts) -> list[Listener]:
    """Return the listeners who were told everything."""
    return [
        listener
        for listener in dispatch.listeners
        if listener.result is not None
        and listener.frames[0][1].snapshot is not None
        and listener.frames[0][1].snapshot.sequence == 0
        and not any(isinstance(event.what, Gap) for event in _events(listener))
    ]
