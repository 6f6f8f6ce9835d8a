"""Rollouts in a SQLite file: after a restart, under SQL by hand, and when a commit is not confirmed."""

from pathlib import Path

import apsw
import pytest

from sidecar.adapters.record_sqlite import record_schema
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.adapters.sqlite import SqliteEngine, Tuning
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.operations.rollout.store.ports import AuditQuery
from tests.adapters.records.sqlite_faults.faulty_disk import Disk, Fault, Plan
from tests.adapters.rollouts.building import (
    a_definition,
    a_rollout,
    a_transition,
    a_write,
    an_answer,
    an_event,
    moment,
    words,
)
from tests.adapters.rollouts.test_sqlite import SqliteBench
from tests.support.second_place import SettableClock

BY_HAND = (
    "UPDATE rollout_audit SET body = '{}'",
    "DELETE FROM rollout_audit",
    "UPDATE rollout_transitions SET number = 9",
    "UPDATE rollout_transitions SET effective_at = 9",
    "DELETE FROM rollout_transitions",
    "UPDATE rollout_answers SET body = '{}'",
    "DELETE FROM rollout_answers",
    "UPDATE kept_definitions SET body = '{}'",
    "DELETE FROM kept_definitions",
)


async def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    """Rollout, audit, what took effect and what waits, answer, flag, definition and version."""
    path = tmp_path / "record.sqlite"
    async with SqliteBench(path) as bench:
        store = await bench.open("one")
        await store.write(a_write(1, transitions=(a_transition(),), events=(an_event(),), answer=an_answer()))
        await store.became_effective([a_transition().event_id], moment(5))
        await store.exported(await store.unexported(1))
        flag = await store.set_flag("a", True, 0, "ada", moment())
        await store.keep_definition(a_definition())
        before = list(await store.audit(AuditQuery())), await store.version()
    async with SqliteBench(path) as bench:
        store = await bench.open("two")
        assert (list(await store.audit(AuditQuery())), await store.version()) == before
        assert await store.rollout(Slot("search")) == a_rollout()
        assert await store.answer("r1") == an_answer()
        assert list(await store.flags()) == [flag]
        assert await store.definition(Digest("sha256:shop")) == a_definition()
        assert list(await store.replicas()) == []


@pytest.mark.parametrize("statement", BY_HAND)
async def test_nobody_changes_what_is_evidence(tmp_path: Path, statement: str) -> None:
    """Not even by hand, with the file alone."""
    path = tmp_path / "record.sqlite"
    async with SqliteBench(path) as bench:
        store = await bench.open("one")
        await store.write(a_write(1, transitions=(a_transition(),), answer=an_answer()))
        await store.became_effective([a_transition().event_id], moment(5))
        await store.keep_definition(a_definition())
    connection = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("answered", [True, False])
async def test_a_commit_that_is_not_confirmed_is_repeated_and_not_doubled(tmp_path: Path, answered: bool) -> None:
    """The disk does not confirm each of four writes once: with a rollout, with words only, of a flag, of an effect."""
    vfs = f"rollouts-{answered}"
    disk = Disk(vfs)
    failed: list[str] = []
    engine = await SqliteEngine.open(
        tmp_path / "r" / "record.sqlite",
        record_schema(),
        lambda doing, error: failed.append(doing),
        Tuning(vfs=vfs, checkpoint_pages=10_000),
    )
    store = SqliteRollouts(engine, InstanceId("one"), SettableClock(moment()))

    def the_next_sync_fails() -> None:
        disk.plan, disk.struck = Plan(Fault.SYNC_FAILS, at=disk.operations + 1, lasting=1), 0

    try:
        await store.version()
        the_next_sync_fails()
        answer = an_answer() if answered else None
        await store.write(a_write(1, transitions=(a_transition(),), events=(an_event("1"),), answer=answer))
        the_next_sync_fails()
        await store.write(words(1, events=(an_event("2"),)))
        the_next_sync_fails()
        flag = await store.set_flag("a", True, 0, "ada", moment())
        the_next_sync_fails()
        assert list(await store.became_effective([a_transition().event_id], moment(5))) == [a_transition().event_id]

        assert failed == ["commit"] * 4
        assert [row.body for row in await store.audit(AuditQuery())] == [a_transition(), an_event("1"), an_event("2")]
        assert await store.rollout(Slot("search")) == a_rollout()
        assert list(await store.flags()) == [flag]
    finally:
        await engine.close()
