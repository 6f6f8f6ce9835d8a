"""What the end of a turn reads of the record: what other sidecars may have put there, and nothing else."""

from typing import Any

from sidecar.adapters.record_memory import JournalContents
from sidecar.core.identifiers import InstanceId, TurnId
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway


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
