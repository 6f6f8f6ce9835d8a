"""A second format version of facts: a sidecar that knows it goes on with old turns, one that does not refuses them."""

import asyncio
from pathlib import Path

import pytest

from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import DispatchId, InstanceId
from sidecar.core.journal.facts import DispatchTaken
from sidecar.core.journal.texts import Texts
from sidecar.operations.record.verify_log import LogVerification
from tests.adapters.records.bench import OpenedRecord
from tests.simulation.finding import run_with
from tests.support.newer_sidecar import TURN
from tests.support.record_builders import a_child, a_dispatch, a_life, moment

PATCH = Path(__file__).with_name("format_version_2.patch")


async def opened(path: Path, instance: str) -> OpenedRecord:
    """Open the record as a sidecar of today does."""
    return OpenedRecord(await SqliteJournal.open(path, InstanceId(instance), lambda doing, error: None))


@pytest.mark.system
@pytest.mark.seconds(120)
async def test_an_upgrade_reads_both_versions_in_one_turn_and_a_downgrade_refuses_it(tmp_path: Path) -> None:
    """The newer sidecar is a process of its own, with a reader and a writer more. It verifies and lists the turn.

    For today's sidecar the turn is then unreadable as a whole: it neither skips the newer facts nor adds to them.
    """
    path = tmp_path / "record.sqlite"
    today = await opened(path, "today")
    dispatch = a_dispatch()
    child = a_child(dispatch)
    await today.append([dispatch, child, *a_life(child)[:3]])
    await today.append([a_dispatch("turn-2")])
    assert isinstance(today.journal, SqliteJournal)
    await today.journal.close()

    code, output = await asyncio.to_thread(run_with, PATCH, ["tests.support.newer_sidecar", str(path)])
    assert code == 0, output

    again = await opened(path, "today-again")
    assert isinstance(again.journal, SqliteJournal)
    before = (await again.journal.facts(TURN)).facts
    with pytest.raises(StoreUnavailable, match="format version 2; this sidecar reads up to 1"):
        await again.turn(TURN)
    with pytest.raises(StoreUnavailable, match="format version 2"):
        await again.append([again.draft(TURN, moment(50), DispatchTaken(DispatchId("dispatch-1"), 2), Texts())])
    assert (await again.journal.facts(TURN)).facts == before
    assert list(await again.left_behind(9)) == [(TURN, None), ("turn-2", "dispatch-1")]
    verification = LogVerification(again.journal, None, lambda looked: None)
    found = [finding async for finding in verification.findings()]
    assert {(str(finding.kind), finding.turn_id) for finding in found} == {("fact_unreadable", TURN)}
    await again.journal.close()
