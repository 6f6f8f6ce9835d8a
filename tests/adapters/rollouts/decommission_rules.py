"""A decommission goes on wherever it was left: any replica takes the next step, and each step is on record once."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.definitions.cards.card import Catalogue
from sidecar.core.definitions.cards.card_json import card_to_json
from sidecar.core.errors import RevisionConflict
from sidecar.core.identifiers import Commit, DefinitionId, Slot, Vertical
from sidecar.core.rollout.decommission import begin
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus, Decommission, Subject
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.step import Actor
from sidecar.operations.rollout.decommission.decommission_list import WatchDecommissions
from sidecar.operations.rollout.decommission.decommission_steps import Decommissioning
from sidecar.operations.rollout.requests import (
    BeginDecommission,
    DecideDecommission,
    DecommissionRequest,
    StepAnswer,
    TakeDecommissionStep,
    UndoDecommission,
)
from sidecar.operations.rollout.steps.content_proofs import ContentProofs
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules
from sidecar.operations.rollout.steps.policy_checks import Policies
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.store.ports import AuditQuery, KeptDefinition, RolloutStore, RolloutWrite
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.operations.rollout.views.pinned_turns import PinnedTurns
from tests.adapters.rollouts.bench import RolloutBench
from tests.adapters.rollouts.building import moment
from tests.support.builders import a_card, a_catalogue
from tests.support.rollouts_told import ToldRecorder
from tests.support.second_place import SettableClock

CARD = a_card("shop")
SLOT = Slot("shop")


class Gone:
    """A configuration that holds nothing of `shop` any more, in a process that never loaded it."""

    def current(self) -> Catalogue:
        """Return it."""
        return a_catalogue(sub_agents=[])

    def card_by_digest(self, digest: Any) -> None:
        """Nothing was ever loaded here: the store has to know."""
        return


@dataclass
class Replica:
    """One process, as far as steps go."""

    store: RolloutStore
    name: str

    async def ask(self, kind: type[DecommissionRequest], request_id: str, **fields: Any) -> StepAnswer:
        """Ask for something, with the revision that is on record."""
        rollout = await self.store.rollout(SLOT)
        given: dict[str, Any] = {"expected_revision": rollout.revision if rollout else 0} | fields
        asked = kind(definition_id=DefinitionId("shop"), request_id=request_id, reason="because", **given)
        return await self._take(asked, f"{self.name}@example")

    @property
    def _take(self) -> ExecuteStep:
        clock, recorder, flags = SettableClock(moment()), ToldRecorder(), cast("Any", None)
        pinned = PinnedTurns(lambda: (), MemoryStore(), self.store, timedelta(minutes=15))
        return ExecuteStep(
            store=self.store,
            clock=clock,
            audit_context=lambda: AuditContext("5", ()),
            proofs=ContentProofs(Gone(), self.store, flags),
            policies=Policies(lambda vertical: (), self.store, clock, recorder),
            gates=GateEvaluator(GateRules(), lambda vertical, gate: None, clock, recorder),
            flags=FlagSwitching(writer_of=flags, snapshot=flags, shown=dict),
            by_hand=flags,
            decommissioning=Decommissioning(Gone(), self.store, pinned),
        )


async def rolled_back(store: RolloutStore) -> None:
    """Put `shop` on record, rolled back, and keep its definition."""
    facts = DefinitionFacts(
        digest=CARD.digest,
        definition_id=CARD.definition.id,
        commit=Commit("c0ffee"),
        vertical=Vertical("shop"),
        state=LifecycleState.ROLLBACK,
    )
    rollout = SlotRollout(slot=SLOT, revision=1, definitions={CARD.digest: facts}, salt="shop")
    await store.write(RolloutWrite(slot=SLOT, expected_revision=0, rollout=rollout))
    kept = KeptDefinition(CARD.digest, CARD.definition.id, SLOT, CARD.commit, card_to_json(CARD), moment())
    await store.keep_definition(kept)


async def record_in(store: RolloutStore) -> Decommission:
    """Return what is on record."""
    rollout = await store.rollout(SLOT)
    assert rollout is not None
    record = rollout.definitions[CARD.digest].decommission
    assert record is not None
    return record


def fields_of(step: CleanupStep) -> dict[str, Any]:
    """Return what belongs to a step."""
    code = CodeStatus.GONE if step is CleanupStep.MODULES else None
    return {"step": step, "code": code, "confirmed": "looked"}


async def begun_at(store: RolloutStore, at: datetime) -> None:
    """Begin again, as an operator does at that time."""
    rollout = await store.rollout(SLOT)
    assert rollout is not None
    by = Actor(actor="ada@example", reason="because", request_id="r-2", at=at)
    change = begin(rollout, CARD.digest, timedelta(days=90), by)
    await store.write(RolloutWrite(slot=SLOT, expected_revision=rollout.revision, rollout=change.rollout))


async def watch_of(store: RolloutStore, clock: SettableClock) -> WatchDecommissions:
    """Return the watch of a replica whose view is as the record is now."""
    rollouts = {each.slot: each for each in await store.rollouts()}
    views: Any = SimpleNamespace(current=lambda: SimpleNamespace(slots=rollouts))
    return WatchDecommissions(store, views, clock, ToldRecorder())


async def late_rows(store: RolloutStore) -> list[RolloutEvent]:
    """Return the rows which say that a window has passed."""
    bodies = [row.body for row in await store.audit(AuditQuery(slot=SLOT)) if isinstance(row.body, RolloutEvent)]
    return [body for body in bodies if body.what is RolloutEventKind.DECOMMISSION_OVERDUE]


class DecommissionRules:
    """Cases of decommissions over several processes."""

    async def test_each_step_may_be_taken_by_another_replica_and_again_by_the_first(self, bench: RolloutBench) -> None:
        """Two processes by turns, each step twice, eval cleanup the last: on record once, and ended."""
        async with bench:
            one, two = Replica(await bench.open("one"), "ada"), Replica(await bench.open("two"), "bo")
            await rolled_back(one.store)
            await one.ask(BeginDecommission, "r-0")
            await two.ask(DecideDecommission, "r-evals", matter=Subject.EVALS, choice=Choice.REMOVE)
            await one.ask(DecideDecommission, "r-tools", matter=Subject.TOOLS, choice=Choice.RETAIN)
            answers = []
            for step, (first, second) in zip(CleanupStep, [(one, two), (two, one)] * 3, strict=False):
                answers.append(await first.ask(TakeDecommissionStep, f"r-{step}", **fields_of(step)))
                answers.append(await second.ask(TakeDecommissionStep, f"r-{step}-again", **fields_of(step)))
            record = await record_in(two.store)
            rows = await one.store.audit(AuditQuery(slot=SLOT))

        assert [answer.changed for answer in answers] == [True, False] * 5
        assert [each.by for each in record.steps] == [f"{name}@example" for name in ("ada", "bo", "ada", "bo", "ada")]
        assert record.finished_at is not None
        marks = [row.body.decommission for row in rows if isinstance(row.body, RolloutEvent)]
        steps = [mark.step for mark in marks if mark is not None]
        assert steps == ["begin", "decide", "decide", *(step.value for step in CleanupStep)]

    async def test_of_many_who_take_a_step_at_once_one_does(self, bench: RolloutBench) -> None:
        """Ten over two processes with one revision: one is on record, the others read again and find it taken."""
        async with bench:
            replicas = [Replica(await bench.open(name), name) for name in ("one", "two")]
            await rolled_back(replicas[0].store)
            await replicas[0].ask(BeginDecommission, "r-0")
            asked = (
                replicas[number % 2].ask(
                    TakeDecommissionStep, f"r-at-once-{number}", expected_revision=2, **fields_of(CleanupStep.ENTRY)
                )
                for number in range(10)
            )
            came = await asyncio.gather(*asked, return_exceptions=True)
            again = await replicas[1].ask(TakeDecommissionStep, "r-again", **fields_of(CleanupStep.ENTRY))
            rows = await replicas[0].store.audit(AuditQuery(slot=SLOT))

        won = [each for each in came if isinstance(each, StepAnswer) and each.changed]
        assert (len(won), again.changed) == (1, False)
        assert {type(each) for each in came if isinstance(each, BaseException)} == {RevisionConflict}
        assert sum(getattr(row.body, "decommission", None) is not None for row in rows) == 2

    async def test_of_many_replicas_one_puts_on_record_that_the_window_has_passed(self, bench: RolloutBench) -> None:
        """Two at once, again, and a third one that has just started: one row. Begun anew and late again: another."""
        async with bench:
            stores = [await bench.open(name) for name in ("one", "two", "three")]
            await rolled_back(stores[0])
            await Replica(stores[0], "ada").ask(BeginDecommission, "r-0")
            clock = SettableClock(moment())
            watches = [await watch_of(each, clock) for each in stores]
            clock.time += timedelta(days=90, seconds=-1)
            await asyncio.gather(*(each.look() for each in watches))
            early = await late_rows(stores[0])
            clock.time += timedelta(seconds=1)
            await asyncio.gather(*(each.look() for each in watches[:2]))
            for each in watches:
                clock.time += timedelta(days=1)
                await each.look()
            once = await late_rows(stores[0])
            await Replica(stores[1], "ada").ask(UndoDecommission, "r-1")
            await begun_at(stores[1], clock.time)
            again = [await watch_of(each, clock) for each in stores]
            clock.time += timedelta(days=90)
            await asyncio.gather(*(each.look() for each in again))
            rows = await late_rows(stores[2])

        assert (len(early), len(once), len(rows)) == (0, 1, 2)
        assert (rows[0].digest, rows[0].actor, rows[0].at) == (CARD.digest, "decommission-watch", once[0].at)
        assert rows[0].detail.startswith(f"begun {moment():%Y-%m-%d}, due ")
        assert "step 1 (entry) is not taken" in rows[0].detail

    async def test_a_request_is_answered_as_before_by_any_replica(self, bench: RolloutBench) -> None:
        """Its answer was lost: the same id elsewhere, and nothing is taken twice."""
        async with bench:
            one, two = Replica(await bench.open("one"), "ada"), Replica(await bench.open("two"), "ada")
            await rolled_back(one.store)
            first = await one.ask(BeginDecommission, "r-0", expected_revision=1)
            repeated = await two.ask(BeginDecommission, "r-0", expected_revision=1)

        assert (first.changed, repeated.changed, repeated.repeated) == (True, True, True)
        assert repeated.decommission == first.decommission
