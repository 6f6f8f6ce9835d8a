"""Retention removes what every database lets go, and refuses to keep less than 90 days."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.operations.record.retention import RetentionRules
from sidecar.operations.rollout.audit.audit_log import PAGE, past_of
from sidecar.operations.rollout.audit.retention import LARGEST_REMOVAL, AuditRetention
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow
from tests.adapters.rollouts.bench import RolloutBench
from tests.adapters.rollouts.building import a_write, an_event, moment
from tests.adapters.rollouts.retention_rules import DAY, HandSigner, details, filled
from tests.adapters.rollouts.test_memory import MemoryBench
from tests.adapters.rollouts.test_sqlite import SqliteBench
from tests.support.requirement import requirement
from tests.support.rollouts_told import ToldRecorder

RULES = RetentionRules(audit=timedelta(days=90), frames=timedelta(days=1))


@requirement("PF1-NFR-3")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_audit_rows_stay_for_ninety_days_and_go_then(tmp_path: Path, kind: str) -> None:
    """Rows of days 0 to 3, looked at 90 and 92 days after the first; less than 90 days cannot be asked for."""
    bench: RolloutBench = MemoryBench() if kind == "memory" else SqliteBench(tmp_path / "record.sqlite")
    async with bench:
        store = await filled(bench)
        told = ToldRecorder()
        retention = AuditRetention(store, RULES, HandSigner(), bench.clock, told.anomaly)
        bench.clock.time = moment(90 * DAY)
        await retention.remove()
        assert (await details(store), retention.removed) == (["transition", "1", "2", "3"], 0)
        bench.clock.time = moment(92 * DAY)
        await retention.remove()
        assert (await details(store), retention.removed) == (["2", "3"], 2)
        (marker,) = await store.audit_markers()
        assert marker.signature == f"{len(marker.signed_bytes())} bytes"
        assert told.anomalies == []
    with pytest.raises(ValueError, match="90 days or more, not 89"):
        RetentionRules(audit=timedelta(days=89), frames=timedelta(days=1))


async def test_much_goes_in_pieces_and_a_store_that_is_away_is_tried_the_next_day() -> None:
    """One marker for each piece; the failure is an anomaly."""
    bench = MemoryBench()
    store = await bench.open("one")
    await store.write(a_write(1, events=tuple(an_event(str(each)) for each in range(LARGEST_REMOVAL + 1))))
    await store.exported(await store.unexported(LARGEST_REMOVAL + 1))
    bench.clock.time = moment(91 * DAY)
    told = ToldRecorder()
    retention = AuditRetention(store, RULES, HandSigner(), bench.clock, told.anomaly)
    bench.cut_off(store)
    await retention.remove()
    assert told.anomalies == ["retention_failed"]
    bench.cut_off(store, away=False)
    await retention.remove()
    assert [marker.rows for marker in await store.audit_markers()] == [LARGEST_REMOVAL, 1]
    assert list(await store.audit(AuditQuery())) == []


async def test_each_piece_reads_what_goes_and_not_all_that_stays() -> None:
    """Else removing a long audit would take the square of its length, once a day."""
    bench = MemoryBench()
    store = await bench.open("one")
    await store.write(a_write(1, events=tuple(an_event(str(each)) for each in range(2 * LARGEST_REMOVAL))))
    await store.exported(await store.unexported(2 * LARGEST_REMOVAL))
    bench.clock.time = moment(91 * DAY)
    young = tuple(msgspec.structs.replace(an_event("young"), at=bench.clock.time) for _ in range(5_000))
    await store.write(a_write(2, events=young))
    counting = CountsWhatIsRead(store)
    await AuditRetention(counting, RULES, HandSigner(), bench.clock, ToldRecorder().anomaly).remove()
    assert [marker.rows for marker in await store.audit_markers()] == [LARGEST_REMOVAL, LARGEST_REMOVAL]
    assert counting.read <= 2 * (LARGEST_REMOVAL + PAGE)


async def test_steps_that_were_not_taken_fill_no_memory_of_the_past() -> None:
    """A pipeline may repeat a refused step for weeks; how a slot stood does not depend on that."""
    bench = MemoryBench()
    store = await bench.open("one")
    refused = msgspec.structs.replace(an_event("refused"), what=RolloutEventKind.REFUSED)
    await store.write(a_write(1, events=(an_event("1"), *(refused for _ in range(3 * PAGE)), an_event("2"))))
    past = await past_of(store, a_write(1).slot)
    assert [row.body.detail for row in past.rows if isinstance(row.body, RolloutEvent)] == ["1", "2"]


class CountsWhatIsRead:
    """The port `RolloutArchive` over another, with the number of audit rows that were read."""

    def __init__(self, store: Any) -> None:
        self.read = 0
        self._store = store

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Read, and count."""
        rows: Sequence[AuditRow] = await self._store.audit(query)
        self.read += len(rows)
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
