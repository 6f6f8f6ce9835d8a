"""Audit rows are kept once, in order, and say when a transition took effect and whether they were handed on."""

import asyncio

from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.verifying.audit_chain import AuditHead
from sidecar.core.verifying.audit_walk import AuditWalk
from sidecar.operations.rollout.store.encoding import audit_body
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutStore
from tests.adapters.rollouts.bench import RolloutBench
from tests.adapters.rollouts.building import a_transition, a_write, an_event, moment

ROLLED_BACK = LifecycleState.ROLLBACK


async def bodies(store: RolloutStore, query: AuditQuery) -> list[object]:
    """Return what the rows say."""
    return [row.body for row in await store.audit(query)]


class AuditingRules:
    """Cases of the audit."""

    async def test_rows_are_read_as_they_were_written_and_in_order(self, bench: RolloutBench) -> None:
        """Transitions before the other events of a write; numbers grow."""
        async with bench:
            store = await bench.open("one")
            await store.write(a_write(1, transitions=(a_transition(),), events=(an_event("a"), an_event("b"))))
            await store.write(a_write(2, events=(an_event("c"),)))

            rows = await store.audit(AuditQuery())
            assert [row.body for row in rows] == [a_transition(), an_event("a"), an_event("b"), an_event("c")]
            assert [row.number for row in rows] == sorted({row.number for row in rows})
            assert {row.slot for row in rows} == {"search"}
            assert [(row.effective_at, row.exported) for row in rows] == [(None, False)] * 4

    async def test_each_row_is_linked_to_the_one_before_whoever_writes_it(self, bench: RolloutBench) -> None:
        """The chain is whole, and the head is the newest row; what is kept once is linked once; it is read in pages."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            assert await one.audit_head() == AuditHead()
            await one.write(a_write(1, transitions=(a_transition(),), events=(an_event("a\0"), an_event("b"))))
            await two.write(a_write(2, transitions=(a_transition(),), events=(an_event("c"),)))
            await one.write(a_write(1, slot="elsewhere", events=(an_event("d"),)))

            rows = [*await two.linked_audit(0, 3), *await two.linked_audit(3, 9)]
            head, walk = await one.audit_head(), AuditWalk(AuditHead(), {})
            assert [finding for row in rows for finding in walk.take(row)] == list(walk.end(head, head)) == []
            assert (walk.number, head) == (5, AuditHead(5, rows[-1].link))
            assert [audit_body(row.kind, row.body) for row in rows] == await bodies(one, AuditQuery())

    async def test_rows_are_asked_for_by_slot_definition_number_and_time(self, bench: RolloutBench) -> None:
        """Each condition alone, two together, and no more rows than wanted."""
        async with bench:
            store = await bench.open("one")
            first, second = an_event("1", at=1), an_event("2", name="other", at=2)
            await store.write(a_write(1, events=(first, second)))
            third = an_event("3", at=3)
            await store.write(a_write(1, slot="elsewhere", events=(third,)))
            numbers = [row.number for row in await store.audit(AuditQuery())]

            shop, search = DefinitionId("shop"), Slot("search")
            assert await bodies(store, AuditQuery(slot=search)) == [first, second]
            assert await bodies(store, AuditQuery(definition_id=shop)) == [first, third]
            assert await bodies(store, AuditQuery(definition_id=shop, slot=search)) == [first]
            assert await bodies(store, AuditQuery(after=numbers[0])) == [second, third]
            assert await bodies(store, AuditQuery(since=moment(2))) == [second, third]
            assert await bodies(store, AuditQuery(limit=2)) == [first, second]

    async def test_a_transition_is_kept_once_whoever_writes_it(self, bench: RolloutBench) -> None:
        """Two replicas see the same kill; the second one's rollout is written, its event is there already."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            event = a_transition(target=ROLLED_BACK, actor="one")
            await one.write(a_write(1, transitions=(event,)))
            again = a_transition(target=ROLLED_BACK, actor="two", at=5)
            await two.write(a_write(2, transitions=(again, a_transition())))

            assert await bodies(one, AuditQuery()) == [event, a_transition()]

    async def test_the_first_who_notes_that_a_transition_took_effect_is_told_so(self, bench: RolloutBench) -> None:
        """Its time stays, and a repetition tells it so again; an unknown id is returned to none."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            ids = [a_transition().event_id, a_transition(target=ROLLED_BACK).event_id]
            await one.write(a_write(1, transitions=(a_transition(), a_transition(target=ROLLED_BACK))))

            assert list(await one.became_effective(ids[:1], moment(7))) == ids[:1]
            assert list(await two.became_effective([*ids, "sha256:none/promote", ""], moment(9))) == ids[1:]
            assert list(await one.became_effective(ids, moment(11))) == ids[:1]
            assert list(await two.became_effective(ids, moment(13))) == ids[1:]
            assert [row.effective_at for row in await two.audit(AuditQuery())] == [moment(7), moment(9)]

    async def test_of_many_who_note_at_once_one_is_first(self, bench: RolloutBench) -> None:
        """Two processes, five notes each: those of one are told that it was first."""
        async with bench:
            stores = [await bench.open("one"), await bench.open("two")]
            await stores[0].write(a_write(1, transitions=(a_transition(),)))
            noted = await asyncio.gather(
                *(stores[at % 2].became_effective([a_transition().event_id], moment(at)) for at in range(10))
            )
            assert sorted((sum(map(len, noted[::2])), sum(map(len, noted[1::2])))) == [0, 5]

    async def test_rows_wait_until_they_were_handed_on(self, bench: RolloutBench) -> None:
        """Oldest first; handed on by two at once, or again, is no matter."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            await one.write(a_write(1, transitions=(a_transition(),), events=(an_event("a"), an_event("b"))))
            await one.became_effective([a_transition().event_id], moment(7))
            waiting = await two.unexported(2)
            assert [row.body for row in waiting] == [a_transition(), an_event("a")]
            assert [row.effective_at for row in waiting] == [moment(7), None]

            await asyncio.gather(one.exported(waiting), two.exported(waiting))
            await one.exported(waiting)
            assert [row.body for row in await one.unexported(9)] == [an_event("b")]
            assert [row.exported for row in await one.audit(AuditQuery())] == [True, True, False]
