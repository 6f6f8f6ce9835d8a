"""Retention removes what every database lets go, and refuses to keep less than 90 days."""

from datetime import timedelta
from pathlib import Path

import pytest

from sidecar.operations.retention import RetentionRules
from sidecar.operations.rollout.ports import AuditQuery
from sidecar.operations.rollout.retention import LARGEST_REMOVAL, AuditRetention
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
        retention = AuditRetention(store, RULES, HandSigner(), bench.clock, told)
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
    retention = AuditRetention(store, RULES, HandSigner(), bench.clock, told)
    bench.cut_off(store)
    await retention.remove()
    assert told.anomalies == ["retention_failed"]
    bench.cut_off(store, away=False)
    await retention.remove()
    assert [marker.rows for marker in await store.audit_markers()] == [LARGEST_REMOVAL, 1]
    assert list(await store.audit(AuditQuery())) == []
