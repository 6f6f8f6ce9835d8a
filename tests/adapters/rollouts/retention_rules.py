"""Audit rows are removed by retention only, after 90 days or more, under a marker that says what was there."""

from datetime import timedelta

import msgspec
import pytest

from sidecar.core.errors import RecordConflict
from sidecar.core.verifying.audit_chain import AuditHead
from sidecar.core.verifying.audit_walk import AuditWalk
from sidecar.operations.rollout.audit.retention import OldAudit, marker_of
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutStore
from tests.adapters.rollouts.bench import RolloutBench, WholeStore
from tests.adapters.rollouts.building import a_transition, a_write, an_answer, an_event, moment

DAYS_90 = timedelta(days=90)
DAY = 86_400.0


class HandSigner:
    """Signs so that a test can see it."""

    key_id = "hand"

    def sign(self, payload: bytes) -> str:
        """Return how long it is."""
        return f"{len(payload)} bytes"


async def details(store: RolloutStore) -> list[str]:
    """Return which rows are there."""
    return [getattr(row.body, "detail", "transition") for row in await store.audit(AuditQuery())]


async def filled(bench: RolloutBench) -> WholeStore:
    """Return a store with a transition on day 0 and an event each on days 1, 2, 3; all handed on."""
    store = await bench.open("one")
    await store.write(a_write(1, transitions=(a_transition(),), answer=an_answer("old")))
    for day in (1, 2, 3):
        answer = an_answer(f"day-{day}", at=day * DAY)
        await store.write(a_write(day + 1, events=(an_event(str(day), at=day * DAY),), answer=answer))
    await store.exported(await store.unexported(9))
    return store


async def old_rows(store: WholeStore, days: float) -> OldAudit:
    """Return what may go of the time before a day."""
    old = await store.old_audit(moment(days * DAY))
    assert old is not None
    return old


class RetentionRules:
    """Cases of retention."""

    async def test_old_rows_go_under_a_marker_and_nothing_else_does(self, bench: RolloutBench) -> None:
        """The rest, its numbers, the marker and the rollout stay; an event that is gone is not kept a second time."""
        async with bench:
            store = await filled(bench)
            rows = await store.audit(AuditQuery())
            old = await old_rows(store, 2)
            marker = marker_of(old, moment(2 * DAY), moment(2 * DAY) + DAYS_90, HandSigner())

            assert await store.remove_audit(marker) == 2
            assert list(await store.audit(AuditQuery())) == list(rows)[2:]
            assert await store.audit_markers() == (marker,)
            head, walk = await store.audit_head(), AuditWalk(AuditHead(marker.number, marker.link), {})
            kept = await store.linked_audit(0, 9)
            assert [finding for row in kept for finding in walk.take(row)] == list(walk.end(head, head)) == []
            assert walk.rows == len(rows) - 2
            assert [await store.answer(each) is None for each in ("old", "day-1", "day-2")] == [True, True, False]
            await store.write(a_write(5, transitions=(a_transition(),), events=(an_event("new", at=4 * DAY),)))
            assert await details(store) == ["2", "3", "new"]
            assert (await store.audit(AuditQuery()))[-1].number > rows[-1].number
            assert await store.remove_audit(marker) == 2  # its answer may have been lost
            assert await details(store) == ["2", "3", "new"]

    async def test_what_is_young_or_not_handed_on_stays_with_all_that_came_after_it(self, bench: RolloutBench) -> None:
        """Rows go from the oldest on, without gaps."""
        async with bench:
            store = await filled(bench)
            assert await store.old_audit(moment()) is None
            assert (await old_rows(store, 1.5)).rows == 2
            await store.write(a_write(5, events=(an_event("late clock", at=0),)))
            await store.write(a_write(6, events=(an_event("waits", at=0),)))
            await store.exported([row for row in await store.unexported(9) if row.body.request_id == "none"])
            assert (await old_rows(store, 9)).rows == 4
            await store.exported((await store.unexported(9))[:1])
            assert (await old_rows(store, 9)).rows == 5
            assert (await old_rows(store, 1.5)).rows == 2

    @pytest.mark.parametrize("wrong", ["89 days", "rows", "content", "number", "repeated"])
    async def test_a_marker_that_does_not_fit_removes_nothing(self, bench: RolloutBench, wrong: str) -> None:
        """Too early by a second; another count, content or number; and one for what is gone."""
        async with bench:
            store = await filled(bench)
            old, before = await old_rows(store, 2), moment(2 * DAY)
            marker = marker_of(old, before, before + DAYS_90, HandSigner())
            if wrong == "repeated":
                await store.remove_audit(marker)
            changes: dict[str, dict[str, object]] = {
                "89 days": {"made_at": before + DAYS_90 - timedelta(seconds=1)},
                "rows": {"rows": 1},
                "content": {"content": "0" * 64},
                "number": {"number": old.number + 1},
                "repeated": {"made_at": before + DAYS_90 + timedelta(seconds=1)},
            }
            there = await details(store)
            with pytest.raises(RecordConflict):
                await store.remove_audit(msgspec.structs.replace(marker, **changes[wrong]))
            assert await details(store) == there
