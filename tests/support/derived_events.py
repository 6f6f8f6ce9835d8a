"""The events that readers are shown of a child whose log runs here: as they are derived from its marks."""

from datetime import UTC, datetime
from typing import Final

from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened
from sidecar.core.identifiers import CallId, DispatchId, EpisodeId
from sidecar.core.journal.child_events import ChildReading, ChildSoFar
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.core.journal.marks import Mark, Values, What
from tests.support.journal_drafts import a_contract

OPENED_AT: Final = datetime(2026, 11, 21, tzinfo=UTC)


def events_of(log: ChildLog) -> list[ChildEvent]:
    """Return all events of a child of which nothing is on record but that it started, at `OPENED_AT`."""
    opened = ChildOpened(
        log.child_id,
        log.run_id,
        EpisodeId("episode-1"),
        DispatchId("dispatch-1"),
        CallId("call-1"),
        log.slot,
        log.step_idx,
        "{}",
        OPENED_AT,
    )
    values: list[Values] = [(), ()]
    marks = [Mark(What.CREATED, 0), Mark(What.STARTED, 0), *log.progress(OPENED_AT, values, take=False).marks]
    reading = ChildReading(ChildSoFar(opened, a_contract(log.run_id, log.slot, log.step_idx), None))
    return [
        reading.take(mark, said, OPENED_AT, reading.so_far.about()) for mark, said in zip(marks, values, strict=True)
    ]
