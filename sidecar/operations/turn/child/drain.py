"""Does what is ready for the calls of an errand, until nothing more is to be done for them."""

from collections.abc import Callable

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import CallId
from sidecar.operations.ready_list import GoOn, Step
from sidecar.operations.record.timed_access import put_on_record
from sidecar.operations.turn.child.call_context import Errand
from sidecar.operations.turn.child.dependencies import Outside


async def drain(errand: Errand, outside: Outside, give_up: Callable[[CallId, Exception], None]) -> None:
    """Lay out everything that is ready, put it on record in one append, go on with it, and begin anew.

    What becomes ready while the store takes its time is done by another one like this, which may go on in its place:
    an append that hangs holds up nobody else. `give_up` is called with a call and the defect that keeps its next step
    from being done; the other calls go on.
    """

    def relieve() -> None:
        outside.spawner.spawn(drain(errand, outside, give_up), f"drain {errand.dispatch_id}")

    ready = errand.ready
    while not ready.closed:
        steps = await ready.take(relieve)
        now = outside.clock.now()
        errand.drains()
        records: list[Record] = []
        laid_out: list[tuple[Step, GoOn]] = []
        for step in steps:
            try:
                more, go_on = step.lay_out(now)
            except Exception as defect:  # noqa: BLE001  it must not cost the other calls anything
                give_up(step.call_id, defect)
            else:
                records.extend(more)
                laid_out.append((step, go_on))
        try:
            refused = await put_on_record(outside.store, records, errand.record_by, errand.deadlines)
        except Exception as defect:  # noqa: BLE001  of the store
            for step, _ in laid_out:
                give_up(step.call_id, defect)
            refused, laid_out = None, []
        if outside.store.waits:
            now = outside.clock.now()
        if isinstance(refused, RecordConflict):
            errand.lose()
        for step, go_on in laid_out:
            try:
                go_on(refused, now)
            except Exception as defect:  # noqa: BLE001  nor may this
                give_up(step.call_id, defect)
        if ready.attended:
            return
