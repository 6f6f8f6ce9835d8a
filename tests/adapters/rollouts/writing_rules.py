"""Rollouts are compared and set as a whole; what is written of a change is kept with it; a request is answered once."""

import asyncio

import pytest

from sidecar.core.errors import RequestIdReused, RevisionConflict
from sidecar.core.identifiers import Slot
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutStore, RolloutWrite
from tests.adapters.rollouts.bench import RolloutBench
from tests.adapters.rollouts.building import a_rollout, a_transition, a_write, an_answer, an_event, words

SEARCH = Slot("search")


async def everything(store: RolloutStore) -> tuple[object, ...]:
    """Return what a refused write must not have changed."""
    audit = tuple(await store.audit(AuditQuery()))
    return tuple(await store.rollouts()), audit, await store.answer("r1"), await store.version()


class WritingRules:
    """Cases of `write`."""

    async def test_what_is_written_is_read_as_it_was(self, bench: RolloutBench) -> None:
        """A rollout with every attribute said, and text that a database may trip over."""
        async with bench:
            store = await bench.open("one")
            assert await store.rollout(SEARCH) is None
            await store.write(a_write(1, ramp=250))

            assert await store.rollout(SEARCH) == a_rollout(revision=1, ramp=250)
            assert list(await store.rollouts()) == [a_rollout(revision=1, ramp=250)]

    async def test_rollouts_come_in_order_of_slots(self, bench: RolloutBench) -> None:
        """Written in another order; a slot that is read alone is the right one."""
        async with bench:
            store = await bench.open("one")
            for slot in ("b", "A", "é", "a"):
                await store.write(a_write(1, slot=slot))

            assert [each.slot for each in await store.rollouts()] == ["A", "a", "b", "é"]
            assert await store.rollout(Slot("b")) == a_rollout("b")

    @pytest.mark.parametrize("expected", [0, 1, 3])
    async def test_a_write_about_another_revision_is_refused_whole(self, bench: RolloutBench, expected: int) -> None:
        """Older, none at all, and one that is not there yet; with audit and answer."""
        async with bench:
            store = await bench.open("one")
            for revision in (1, 2):
                await store.write(a_write(revision))
            before = await everything(store)

            with pytest.raises(RevisionConflict, match=f"revision 2, not {expected}") as refused:
                await store.write(
                    a_write(expected + 1, transitions=(a_transition(),), events=(an_event(),), answer=an_answer())
                )
            assert refused.value.metadata == {"revision": "2"}
            assert await everything(store) == before

    async def test_words_about_another_revision_are_refused_too(self, bench: RolloutBench) -> None:
        """A refusal that was judged by what is no longer so is judged anew."""
        async with bench:
            store = await bench.open("one")
            await store.write(a_write(1))
            before = await everything(store)
            with pytest.raises(RevisionConflict):
                await store.write(words(0, events=(an_event(),), answer=an_answer()))
            assert await everything(store) == before

    async def test_words_leave_the_rollout_and_the_version(self, bench: RolloutBench) -> None:
        """Refused and held requests are on the audit."""
        async with bench:
            store = await bench.open("one")
            await store.write(a_write(1))
            version = await store.version()
            await store.write(words(1, events=(an_event("held"),), answer=an_answer()))

            assert await store.version() == version
            assert await store.rollout(SEARCH) == a_rollout()
            assert [row.body for row in await store.audit(AuditQuery())] == [an_event("held")]
            assert await store.answer("r1") == an_answer()

    async def test_a_write_that_contradicts_itself_is_a_defect(self, bench: RolloutBench) -> None:
        """Not the next revision; another slot."""
        async with bench:
            store = await bench.open("one")
            for rollout in (a_rollout(revision=2), a_rollout("other", revision=1)):
                with pytest.raises(ValueError, match="is no next one of"):
                    await store.write(RolloutWrite(slot=SEARCH, expected_revision=0, rollout=rollout))
            assert list(await store.rollouts()) == []

    async def test_of_twenty_racing_writers_one_wins_and_the_others_see_it(self, bench: RolloutBench) -> None:
        """Two processes, both reading before either writes; the losers' audit and answers are not kept."""
        async with bench:
            stores = [await bench.open("one"), await bench.open("two")]
            await stores[0].write(a_write(1))
            writes = [
                a_write(2, ramp=each, events=(an_event(str(each)),), answer=an_answer(f"race-{each}"))
                for each in range(20)
            ]
            ended = await asyncio.gather(
                *(stores[at % 2].write(write) for at, write in enumerate(writes)), return_exceptions=True
            )

            (winner,) = [at for at, error in enumerate(ended) if error is None]
            assert [type(error) for error in ended if error is not None] == [RevisionConflict] * 19
            for store in stores:
                assert await store.rollout(SEARCH) == a_rollout(revision=2, ramp=winner)
                (row,) = await store.audit(AuditQuery())
                assert row.body == an_event(str(winner))
                kept = [at for at in range(20) if await store.answer(f"race-{at}") is not None]
                assert kept == [winner]

    async def test_the_version_grows_with_each_change_for_everybody(self, bench: RolloutBench) -> None:
        """A replica that has seen it has seen the rollout, too."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            versions = [await one.version()]
            for revision in (1, 2, 3):
                await one.write(a_write(revision))
                versions.append(await two.version())
            assert versions == sorted(set(versions))

    async def test_a_change_is_hinted_at(self, bench: RolloutBench) -> None:
        """To another process too, where another one can have the database; nobody sleeps until then."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            hinted = asyncio.Event()
            told = two if bench.shared else one
            told.on_change(hinted.set)
            await bench.listen(told)
            for write in (a_write(1), words(1, events=(an_event("held"),))):
                await asyncio.sleep(0)
                hinted.clear()
                await one.write(write)
                async with asyncio.timeout(10):
                    await hinted.wait()

    async def test_a_request_is_answered_once(self, bench: RolloutBench) -> None:
        """The same write again, as after a lost answer: nothing is doubled, by whichever process."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            write = a_write(1, transitions=(a_transition(),), events=(an_event(),), answer=an_answer())
            await one.write(write)
            before = await everything(one)
            await one.write(write)
            await two.write(write)
            assert await everything(two) == before
            assert await two.answer("r1") == an_answer()
            assert await two.answer("r2") is None

    async def test_a_request_id_with_other_contents_is_refused_whole(self, bench: RolloutBench) -> None:
        """Even if the revision fits."""
        async with bench:
            store = await bench.open("one")
            await store.write(a_write(1, answer=an_answer()))
            before = await everything(store)
            with pytest.raises(RequestIdReused):
                await store.write(a_write(2, events=(an_event(),), answer=an_answer(fingerprint="f2")))
            with pytest.raises(RequestIdReused, match="another operator"):
                await store.write(a_write(2, events=(an_event(),), answer=an_answer(asker="bob")))
            assert await everything(store) == before

    async def test_a_request_that_another_replica_answered_otherwise_is_in_conflict(self, bench: RolloutBench) -> None:
        """A client asked two replicas at once: one has done it, the other would keep a refusal."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            await one.write(a_write(1, answer=an_answer()))
            before = await everything(one)
            with pytest.raises(RevisionConflict, match="ask again"):
                await two.write(words(1, events=(an_event(),), answer=an_answer(kind="TRANSITION_REFUSED")))
            assert await everything(two) == before
