"""A real SQLite on a disk that fails at any moment. How many moments: `SIDECAR_FAULTS`, 60 if it is not set."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from sidecar.adapters.record_sqlite import SqliteJournal, record_schema
from sidecar.adapters.sqlite import SqliteEngine, Tuning
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.records import CallSettled, Record
from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.chain import link_of
from sidecar.core.journal.encoding import draft_of
from sidecar.core.journal.heads import links_of
from sidecar.core.journal.markers import root_over
from sidecar.core.journal.turn_state import TurnState
from tests.adapters.records.appending_rules import in_groups
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.sqlite_faults.faulty_disk import Disk, Fault, Plan
from tests.support.record_builders import a_whole_turn
from tests.support.recording.translation import turn_of

MOMENTS: Final = int(os.environ.get("SIDECAR_FAULTS", "60"))
TURNS: Final = 4
FEWEST_PAGES: Final = 12
"""So that the write-ahead log is moved several times meanwhile."""

Group = Sequence[Record]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a record with its tables and nothing in them."""
    file = tmp_path_factory.mktemp("empty") / "record.sqlite"

    async def make() -> None:
        await (await SqliteJournal.open(file, InstanceId("nobody"), _ignored)).close()

    asyncio.run(make())
    return file


@pytest.mark.seconds(600)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
async def test_what_was_acknowledged_survives(fault: Fault, empty: Path, tmp_path: Path) -> None:
    """The fault strikes at any moment: acknowledged groups are whole, the rest is a whole group or none of it."""
    seed = int(os.environ.get("SIDECAR_FAULTS_SEED", Random().randrange(2**32)))
    struck = 0
    for number in range(MOMENTS // len(Fault)):
        print(f"SIDECAR_FAULTS_SEED={seed}, moment {number} of {fault.name}")  # noqa: T201 - shown when it fails
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(empty, folder / "record.sqlite")
        struck += await _one_moment(fault, folder, Random(f"{seed}/{number}"))
        shutil.rmtree(folder)
    assert struck > MOMENTS // len(Fault) // 2, "most moments came after everything was over"


async def _one_moment(fault: Fault, folder: Path, chance: Random) -> bool:
    """Return whether the fault came before everything was over."""
    groups = _groups(chance)
    disk = Disk(f"faulty-{folder}")
    engine = await SqliteEngine.open(
        folder / "record.sqlite", record_schema(), _ignored, Tuning(f"faulty-{folder}", FEWEST_PAGES)
    )
    journal = SqliteJournal(engine, InstanceId("one"))
    await journal.begin()
    record = OpenedRecord(journal)
    disk.plan = Plan(fault, disk.operations + chance.randint(1, 160), chance.randint(1, 4))
    try:
        acknowledged = await _append(record, groups, disk)
        if fault is not Fault.POWER_CUT:
            assert acknowledged == len(groups), "it did not go on by itself"
    finally:
        disk.after_power_cut(folder / "left", chance)
        await journal.close()
        disk.unregister()
    await _check(folder / "left" / "record.sqlite", groups, acknowledged)
    return disk.struck > 0


async def _append(record: OpenedRecord, groups: Sequence[Group], disk: Disk) -> int:
    """Append one group after the other, each until it is acknowledged; return how many were."""
    for number, group in enumerate(groups):
        for _ in range(12):
            try:
                await record.append(group)
            except StoreUnavailable:
                assert await _readable(record, groups[:number], disk)
                continue
            break
        else:
            return number
    return len(groups)


async def _readable(record: OpenedRecord, groups: Sequence[Group], disk: Disk) -> bool:
    """Whether what was acknowledged can be read while nothing can be written."""
    if not groups or not disk.power:
        return True
    turn = await record.turn(TurnId("turn-0"))
    return turn is not None and _holds(turn, await record.attempts(TurnId("turn-0")), groups[0])


async def _check(path: Path, groups: Sequence[Group], acknowledged: int) -> None:
    """Look at what a power cut has left, and go on with it."""
    record = await _opened(path, "two")
    try:
        kept = [await _is_there(record, group) for group in groups]
        assert all(kept[:acknowledged]), "an acknowledged group is lost"
        assert kept == sorted(kept, reverse=True), "a group is there without one before it"
        assert sum(kept) <= acknowledged + 1, "a group is there that was never handed over"
        await _verify_chains(record)
    finally:
        await record.journal.close()
    again = await _opened(path, "one")
    try:
        for group in groups:
            await again.append(group)
        assert all([await _is_there(again, group) for group in groups])
        await _verify_chains(again)
    finally:
        await again.journal.close()


async def _opened(path: Path, instance: str) -> OpenedRecord:
    return OpenedRecord(await SqliteJournal.open(path, InstanceId(instance), _ignored))


async def _is_there(record: OpenedRecord, group: Group) -> bool:
    """Whether a group is there, whole. Fails if a part of it is."""
    turn_id = turn_of(group[0])
    turn, attempts = await record.turn(turn_id), await record.attempts(turn_id)
    found = [turn is not None and _holds(turn, attempts, [each]) for each in group]
    assert all(found) or not any(found), "a part of a group is there"
    return all(found)


def _holds(turn: StoredTurn, attempts: Sequence[Record], group: Group) -> bool:
    there: list[object] = [each.opened for each in turn.dispatches] + [turn.ended, turn.routing, *attempts]
    for child in turn.children:
        there += [child.opened, *child.events]
    outcomes = [outcome for each in turn.dispatches for outcome in each.outcomes]
    return all(each.outcome in outcomes if isinstance(each, CallSettled) else each in there for each in group)


async def _verify_chains(record: OpenedRecord) -> None:
    """Fail unless each fact follows those before it, and the roots cover them all."""
    async for turn_id in record.journal.turn_ids():
        state = TurnState(turn_id)
        for stored in (await record.journal.facts(turn_id)).facts:
            links = links_of(state.head, draft_of(stored).body)
            assert link_of(stored, links) == stored.link
            state.read((stored,))
    for at in await record.journal.roots():
        facts = [fact.link async for fact in record.journal.facts_of_day(at.day) if fact.by == at.instance]
        assert (len(facts), root_over(facts)) == (at.number, at.root)


def _groups(chance: Random) -> list[Group]:
    """Return the records of some turns, in the groups in which a sidecar appends them, some of them together."""
    groups: list[Group] = []
    for number in range(TURNS):
        records = a_whole_turn(f"turn-{number}", ("shop", "rewards")[: chance.randint(1, 2)], at=number * 10)
        first, *rest = in_groups(records)
        groups.append(first)
        for group in rest:
            if chance.random() < 0.3:
                groups[-1] = [*groups[-1], *group]
            else:
                groups.append(group)
    return groups


def _ignored(doing: str, error: str) -> None:
    """What the engine reports is what the test makes happen."""


async def test_a_sync_that_failed_is_not_taken_for_done(empty: Path, tmp_path: Path) -> None:
    """Its commit is repeated and acknowledged, then the power is cut, all while nothing else has the file open."""
    shutil.copy(empty, tmp_path / "record.sqlite")
    disk = Disk(f"faulty-{tmp_path}")
    engine = await SqliteEngine.open(
        tmp_path / "record.sqlite", record_schema(), _ignored, Tuning(f"faulty-{tmp_path}")
    )
    journal = SqliteJournal(engine, InstanceId("one"))
    await journal.begin()
    record = OpenedRecord(journal)
    groups = in_groups(a_whole_turn("turn-0"))
    try:
        await record.append(groups[0])
        disk.plan = Plan(Fault.SYNC_FAILS, disk.operations + 1, 1)
        await record.append(groups[1])
        assert record.batches == 3, "its commit was repeated"
    finally:
        disk.after_power_cut(tmp_path / "left", Random(1))
        await journal.close()
        disk.unregister()
    await _check(tmp_path / "left" / "record.sqlite", groups, 2)


@pytest.mark.parametrize("seed", range(3))
async def test_a_process_that_dies_after_a_failed_sync_leaves_nothing_that_only_memory_holds(
    empty: Path, tmp_path: Path, seed: int
) -> None:
    """The next process finds the pages of the failed commit in the kernel's memory, and may confirm them.

    No sync ever writes these pages. A power cut would lose them, and all later commits behind them in the log.
    """
    (tmp_path / "first").mkdir()
    shutil.copy(empty, tmp_path / "first" / "record.sqlite")
    groups = in_groups(a_whole_turn("turn-0")) + in_groups(a_whole_turn("turn-1", at=10))
    disk = Disk(f"faulty-{tmp_path / 'first'}")
    dying = await _on(tmp_path / "first")
    try:
        await dying.append(groups[0])
        disk.plan = Plan(Fault.SYNC_FAILS, disk.operations + 1, 1000)
        with pytest.raises(StoreUnavailable):
            await dying.append(groups[1])
        disk_of_next = disk.after_death(tmp_path / "second", f"faulty-{tmp_path / 'second'}")
    finally:
        await dying.journal.close()
        disk.unregister()
    living = await _on(tmp_path / "second")
    try:
        assert await _is_there(living, groups[1]), "the pages of the failed commit are not there: nothing is tested"
        for group in groups[1:]:
            await living.append(group)
        disk_of_next.after_power_cut(tmp_path / "left", Random(seed))
    finally:
        await living.journal.close()
        disk_of_next.unregister()
    await _check(tmp_path / "left" / "record.sqlite", groups, len(groups))


async def _on(folder: Path) -> OpenedRecord:
    """Open the record in a folder of a faulty disk."""
    engine = await SqliteEngine.open(folder / "record.sqlite", record_schema(), _ignored, Tuning(f"faulty-{folder}"))
    journal = SqliteJournal(engine, InstanceId("one"))
    await journal.begin()
    return OpenedRecord(journal)
