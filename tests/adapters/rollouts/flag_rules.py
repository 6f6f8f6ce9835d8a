"""Flags and kept definitions change the version; replicas say what they show."""

import asyncio

import pytest

from sidecar.core.errors import RevisionConflict
from sidecar.core.identifiers import Digest, Slot
from sidecar.operations.rollout.store.flag_writes import FlagWrite
from sidecar.operations.rollout.store.ports import AuditQuery, StoredFlag
from tests.adapters.rollouts.bench import RolloutBench
from tests.adapters.rollouts.building import a_definition, an_answer, an_event, moment


class FlagAndDefinitionRules:
    """Cases of embedded flags, kept definitions and replicas."""

    async def test_flags_are_created_and_set_by_revision(self, bench: RolloutBench) -> None:
        """Every process reads them, by name."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            assert list(await one.flags()) == []
            versions = [await one.version()]
            made = await one.set_flag("b", False, 0, "ada", moment())
            versions.append(await two.version())
            other = await two.set_flag("a", True, 0, "bob", moment(1))
            versions.append(await two.version())
            assert list(await one.flags()) == [other, made]
            changed = await two.set_flag("b", True, made.revision, "bob", moment(2))
            versions.append(await one.version())

            assert made == StoredFlag("b", False, 1, moment(), "ada")
            assert changed == StoredFlag("b", True, 2, moment(2), "bob")
            assert list(await one.flags()) == [other, changed]
            assert versions == sorted(set(versions))

    @pytest.mark.parametrize("expected", [0, 1, 3])
    async def test_a_flag_of_another_revision_is_left(self, bench: RolloutBench, expected: int) -> None:
        """Created again, set by an old state, and by one that is not there yet."""
        async with bench:
            store = await bench.open("one")
            for revision in (0, 1):
                await store.set_flag("a", True, revision, "ada", moment())
            before = list(await store.flags()), await store.version()
            with pytest.raises(RevisionConflict, match=f"revision 2, not {expected}"):
                await store.set_flag("a", False, expected, "bob", moment())
            assert (list(await store.flags()), await store.version()) == before

    async def test_of_ten_who_switch_a_flag_one_wins(self, bench: RolloutBench) -> None:
        """Over two processes."""
        async with bench:
            stores = [await bench.open("one"), await bench.open("two")]
            ended = await asyncio.gather(
                *(stores[at % 2].set_flag("a", True, 0, f"by-{at}", moment()) for at in range(10)),
                return_exceptions=True,
            )
            (won,) = [each for each in ended if isinstance(each, StoredFlag)]
            assert sum(isinstance(each, RevisionConflict) for each in ended) == 9
            assert list(await stores[0].flags()) == [won]

    async def test_a_flag_is_switched_with_its_audit_and_answer_or_not_at_all(self, bench: RolloutBench) -> None:
        """One transaction: of another revision of the flag nothing is kept; repeated, nothing is kept twice."""
        async with bench:
            store = await bench.open("one")
            made = await store.set_flag("a", True, 0, "ada", moment())
            version = await store.version()

            def switched(revision: int, request_id: str) -> FlagWrite:
                flag = StoredFlag("a", False, revision, moment(1), "bob")
                answer, event = an_answer(request_id), an_event("switched")
                return FlagWrite(slot=Slot("search"), expected_revision=0, events=(event,), answer=answer, flag=flag)

            with pytest.raises(RevisionConflict, match="the flag a has revision 1, not 4"):
                await store.write(switched(5, "r1"))
            kept = (list(await store.flags()), await store.answer("r1"), await store.version())
            assert kept == ([made], None, version)
            for _ in range(2):
                await store.write(switched(2, "r2"))
            assert list(await store.flags()) == [StoredFlag("a", False, 2, moment(1), "bob")]
            assert [each.body for each in await store.audit(AuditQuery())] == [an_event("switched")]
            assert await store.answer("r2") == an_answer("r2")
            assert await store.version() == version + 1

    async def test_a_definition_is_kept_as_it_came_first(self, bench: RolloutBench) -> None:
        """The second time nothing changes, the version neither."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            before = await one.version()
            await one.keep_definition(a_definition())
            version = await two.version()
            await two.keep_definition(a_definition(card="other"))

            assert version > before
            assert await one.version() == version
            assert await two.definition(Digest("sha256:shop")) == a_definition()
            assert await two.definition(Digest("sha256:none")) is None

    async def test_replicas_say_what_they_show(self, bench: RolloutBench) -> None:
        """Each its newest; one that is silent counts as dead, and is forgotten after a while."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            assert list(await one.replicas()) == []
            await one.show(3, bench.clock.now())
            await one.show(4, bench.clock.now())
            if bench.shared:
                await two.show(9, bench.clock.now())
            shown = [(each.instance, each.version, each.alive) for each in await one.replicas()]
            assert shown == [("one", 4, True), ("two", 9, True)][: 1 + bench.shared]
            assert (await one.replicas())[0].seen_at == moment()

            await bench.silence("one", 11)
            assert not (await one.replicas())[0].alive
            await bench.silence("one", 300)
            assert "one" not in [each.instance for each in await one.replicas()]
