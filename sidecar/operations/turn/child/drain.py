"""Does what is ready for the calls of an errand, until nothing more is to be done for them."""

from collections.abc import Callable

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import CallId
from sidecar.operations.ready_list import Refusal, Step
from sidecar.operations.record.ports import Store
from sidecar.operations.record.timed_access import put_on_record
from sidecar.operations.turn.child.call_context import Errand


async def drain(errand: Errand, store: Store, give_up: Callable[[CallId, Exception], None]) -> None:
    """Lay out everything that is ready, put it on record in one append, go on with it, and begin anew.

    Steps that become ready meanwhile wait for the next round, which begins at once. `give_up` is called with a call and
    the defect that keeps its next step from being done; the other calls go on.
    """
    while not errand.over:
        steps = await errand.ready.take()
        errand.drains()
        records: list[Record] = []
        laid_out: list[tuple[Step, Callable[[Refusal], None]]] = []
        for step in steps:
            try:
                more, go_on = step.lay_out()
            except Exception as defect:  # noqa: BLE001  it must not cost the other calls anything
                give_up(step.call_id, defect)
            else:
                records.extend(more)
                laid_out.append((step, go_on))
        try:
            refused = await put_on_record(store, records, errand.record_by, errand.deadlines)
        except Exception as defect:  # noqa: BLE001  of the store
            for step, _ in laid_out:
                give_up(step.call_id, defect)
            continue
        if isinstance(refused, RecordConflict):
            errand.lose()
        for step, go_on in laid_out:
            try:
                go_on(refused)
            except Exception as defect:  # noqa: BLE001
                give_up(step.call_id, defect)
