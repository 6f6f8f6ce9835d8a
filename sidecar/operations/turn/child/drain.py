"""Takes the ready steps of the calls of a call context until none are left.

Unconfirmed facts come first in an append, because later facts of the same children link to them. Facts of events that
have happened are noted before the append: if it is cancelled or times out, the next append repeats them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import CallId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.making.settling import settled_together
from sidecar.operations.ready_list import Continuation, LaidOut, Step
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.turn.child.call_context import CallContext
from sidecar.operations.turn.child.dependencies import TurnDependencies


async def drain(
    context: CallContext, dependencies: TurnDependencies, give_up: Callable[[CallId, Exception], None]
) -> None:
    """Take all ready steps, record them in one append, continue their calls, and repeat.

    Another drain takes the steps that become ready during the append, and may replace this one: a hanging append does
    not delay other calls. If a step raises, `give_up` is called with its call and the exception; the other calls
    continue.
    """

    def relieve() -> None:
        dependencies.spawner.spawn(drain(context, dependencies, give_up), f"drain {context.dispatch_id}")

    ready, turn, dispatch_id, store = context.ready, context.turn, context.dispatch_id, dependencies.store
    while not ready.closed:
        steps = await ready.take(relieve)
        now = dependencies.clock.now()
        context.drains()
        laid = list[LaidOut]()
        laid_out: list[tuple[Step, Continuation]] = []
        for step in steps:
            try:
                more = step.lay_out(now)
            except Exception as defect:  # noqa: BLE001  it must not cost the other calls anything
                give_up(step.call_id, defect)
            else:
                laid.append(more)
                laid_out.append((step, more.resume))
        happened = _happened(context, dependencies, laid, now)
        before = turn.in_front(dispatch_id)
        turn.happened(dispatch_id, happened)
        try:
            opening = [each.opening for each in laid if each.opening is not None]
            drafts = (*before, *opening, *happened)
            refused = await append_within(store, drafts, context.record_by, context.deadlines)
            if (before or happened) and (refused is None or isinstance(refused, RecordConflict)):
                turn.recorded(dispatch_id, (*before, *happened))
        except Exception as defect:  # noqa: BLE001  of the store
            for step, _ in laid_out:
                give_up(step.call_id, defect)
            refused, laid_out = None, []
        if store.waits:
            now = dependencies.clock.now()
        if isinstance(refused, RecordConflict):
            context.lose()  # its new owner settles what could not be recorded here
        for step, resume in laid_out:
            try:
                resume(refused, now)
            except Exception as defect:  # noqa: BLE001  nor may this
                give_up(step.call_id, defect)
        if ready.attended:
            return


def _happened(
    context: CallContext, dependencies: TurnDependencies, laid: Sequence[LaidOut], now: datetime
) -> list[Draft]:
    """Return the facts that must be appended in any case; outcomes that arrive together are one fact."""
    happened = [each.happened for each in laid if each.happened is not None]
    settled = [each.settled for each in laid if each.settled is not None]
    if settled:
        body, texts = settled_together(context.dispatch_id, settled)
        frames = tuple([row for each in settled for row in each.frames])
        happened.append(dependencies.store.draft(context.turn.turn_id, now, body, texts, frames))
    return happened
