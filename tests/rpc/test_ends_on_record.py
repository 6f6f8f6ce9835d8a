"""What the end of a turn reads of the record: what other sidecars may have put there, and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.record_memory import JournalContents
from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds
from sidecar.composition.record.open_record import RecordDependencies, opened_record
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.settings.record import RecordSettings, SqliteRecordSettings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway
from tests.support.requirement import requirement


async def test_the_end_tells_calls_that_only_the_other_sidecar_knows() -> None:
    """A refused call has no child that would keep the turn open on record: the first one has to look."""
    record = JournalContents()
    stores = [StoreThatCanBeAway(record, InstanceId(name), {"first", "second"}.__contains__) for name in "ab"]
    async with (
        running_sidecar_for_tests(store=stores[0], background=False) as first,
        running_sidecar_for_tests(store=stores[1], background=False) as second,
    ):
        bound = await first.bind()
        await second.dispatch(bound, "ask_nobody", dispatch_id="d-1")

        ended = await first.end(bound)

        assert [(each.dispatch_id, each.call_id) for each in ended.routing_decision.calls] == [("d-1", "call-1")]


class ReadsCounted(StoreThatCanBeAway):
    """Counts reads of whole turns; its record is this process's alone."""

    shared = False
    reads = 0

    async def turn(self, turn_id: TurnId) -> Any:
        """Count."""
        self.reads += 1
        return await super().turn(turn_id)


async def test_a_turn_is_ended_without_reading_it_where_the_record_is_this_processes_alone() -> None:
    """Bound and dispatched here, nothing else can be on record of it. One that a restart has left behind is read."""
    store = ReadsCounted(JournalContents(), InstanceId("first"))
    async with running_sidecar_for_tests(store=store, background=False) as sidecar:
        for forgotten in (False, True):
            bound = await sidecar.bind()
            await sidecar.dispatch(bound, "ask_shop")
            if forgotten:
                sidecar.operations.turns.forget(sidecar.operations.turns.of_token(bound.surface_token))
            before = store.reads

            ended = await sidecar.end(bound)

            assert [each.sub_agent_id for each in ended.routing_decision.calls] == ["shop"]
            assert (store.reads > before) == forgotten


@asynccontextmanager
async def sidecar_on(path: Path) -> AsyncIterator[SidecarForTests]:
    """Serve from a SQLite record; each entry is another process as far as the record can tell."""
    tasks, recorder = OwnedTasks(lambda name, error: None), MeasuringRecorder(Metrics())
    around = RecordDependencies(SystemClock(), SystemIds(), tasks, recorder, Redactor())
    settings = RecordSettings(database="sqlite", sqlite=SqliteRecordSettings(path=path))
    async with (
        opened_record(settings, around) as opened,
        running_sidecar_for_tests(store=opened.store, background=False) as sidecar,
    ):
        yield sidecar


@requirement("PC2-FR-15a")
@pytest.mark.parametrize("calls", [("ask_shop", "ask_rewards"), ("ask_nobody",)], ids=["closed", "refused"])
async def test_a_turn_bound_again_after_a_restart_ends_with_the_calls_of_the_process_before(
    tmp_path: Path, calls: tuple[str, ...]
) -> None:
    """No open child keeps the new process from ending the turn, so that it has to look what was dispatched."""
    async with sidecar_on(tmp_path / "record.sqlite") as first:
        bound = await first.bind(turn_id="turn-1")
        told = await first.dispatch(bound, *calls, dispatch_id="d-1")
        for outcome in told.result.outcomes:
            if outcome.child_id:
                close = pb.CloseChildRequest(surface_token=bound.surface_token, child_id=outcome.child_id)
                await first.stub.CloseChild(close, metadata=first.metadata)

    async with sidecar_on(tmp_path / "record.sqlite") as second:
        ended = await second.end(await second.bind(turn_id="turn-1"))

    routed = [(each.dispatch_id, each.call_id, each.outcome) for each in ended.routing_decision.calls]
    assert routed == [("d-1", each.call_id, each.outcome) for each in told.result.outcomes]
    started = [each.child_id for each in told.result.outcomes if each.child_id]
    assert [each.child_id for each in ended.children] == started
