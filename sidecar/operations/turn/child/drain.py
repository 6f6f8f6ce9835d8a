"""Takes the ready steps of a call context and executes them, until none are left.

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


async def drain(context: CallContext, deps: TurnDependencies, give_up: Callable[[CallId, Exception], None]) -> None:
    """Take all ready steps, record them in one append, continue their calls, and repeat.

    Steps that become ready during the append go to another drain (`relieve`), so a hanging append delays no other call.
    If a step raises, `give_up` receives its call and the exception; the other calls continue.
    """

    def relieve() -> None:
        deps.spawner.spawn(drain(context, deps, give_up), f"drain {context.dispatch_id}")

    ready, turn, dispatch_id, store = context.ready, context.turn, context.dispatch_id, deps.store
    while not ready.closed:
        steps = await ready.take(relieve)
        now = deps.clock.now()
        context.drains()  # before the append: listeners can send earlier events while the store works
        plans = list[LaidOut]()
        prepared: list[tuple[Step, Continuation]] = []
        for step in steps:
            try:
                plan = step.lay_out(now)
            except Exception as defect:  # noqa: BLE001  a defect in one call must not affect the others
                give_up(step.call_id, defect)
            else:
                plans.append(plan)
                prepared.append((step, plan.resume))
        happened = _happened(context, deps, plans, now)
        before = turn.in_front(dispatch_id)
        # Noted before the await below: if this task is cancelled during the append, the facts must not be lost.
        turn.happened(dispatch_id, happened)
        try:
            drafts = (*before, *(each.opening for each in plans if each.opening is not None), *happened)
            refused = await append_within(store, drafts, context.record_by, context.deadlines)
            # After a time limit the drafts stay: they may be recorded or not, and the store recognises a repetition.
            if (before or happened) and (refused is None or isinstance(refused, RecordConflict)):
                turn.recorded(dispatch_id, (*before, *happened))
        except Exception as defect:  # noqa: BLE001  a defect of the store
            for step, _ in prepared:
                give_up(step.call_id, defect)
            refused, prepared = None, []
        if store.waits:  # a database has taken time; a store in memory has not, and saves one look at the clock
            now = deps.clock.now()
        if isinstance(refused, RecordConflict):
            context.lose()  # the new owner settles the calls whose outcomes could not be recorded here
        for step, resume in prepared:
            try:
                resume(refused, now)
            except Exception as defect:  # noqa: BLE001  a defect of one call must not end the others
                give_up(step.call_id, defect)
        if ready.attended:
            return  # another drain was started during the append and takes all further steps


def _happened(context: CallContext, deps: TurnDependencies, plans: Sequence[LaidOut], now: datetime) -> list[Draft]:
    """Return the facts of events that have happened; outcomes that settle together share one fact."""
    happened = [each.happened for each in plans if each.happened is not None]
    settled = [each.settled for each in plans if each.settled is not None]
    if settled:
        body, texts = settled_together(context.dispatch_id, settled)
        frames = tuple([row for each in settled for row in each.frames])
        happened.append(deps.store.draft(context.turn.turn_id, now, body, texts, frames))
    return happened
