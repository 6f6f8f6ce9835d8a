"""Refused steps of callers who were who they said: on the audit, seldom, and at nobody's cost."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.errors import RevisionConflict
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.operations.rollout.audit.refusals import EACH, MOST, RateLimit, RecordRefusals, RefusedStep
from sidecar.operations.rollout.requests import StepRequest
from sidecar.operations.rollout.store.ports import RolloutWrite
from tests.support.stopping import SHOP, ReplicaForTests, Rollouts


def a_refusal(actor: str = "eve@example", verb: str = "Kill", name: str = "shop") -> RefusedStep:
    """Return one."""
    return RefusedStep(
        verb=verb,
        asked=StepRequest(
            definition_id=DefinitionId(name),
            request_id="r-1",
            reason="I want to",
            actor_key="ab" * 8,
            actor_role="viewer",
        ),
        actor=actor,
        why=f"ROLE_REQUIRED: the role viewer may not call {verb}",
    )


def noting(replica: ReplicaForTests, store: MemoryRollouts | None = None) -> RecordRefusals:
    """Return what takes notes at a replica, as after a start."""
    return RecordRefusals(store or replica.store, replica.views.current, replica.clock, replica.recorder)


def told(rollouts: Rollouts) -> list[RolloutEvent]:
    """Return the rows of refused steps."""
    rows = (row.body for row in rollouts.contents.audit.values())
    return [row for row in rows if isinstance(row, RolloutEvent) and row.what is RolloutEventKind.REFUSED]


@dataclass
class Scene:
    """A replica that serves `shop`."""

    rollouts: Rollouts
    replica: ReplicaForTests
    refusals: RecordRefusals


async def a_scene() -> Scene:
    """Return one with nothing noted."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    return Scene(rollouts, replica, noting(replica))


async def test_a_refused_step_is_one_row_with_who_what_and_why() -> None:
    """It changes nothing of the rollout, not even its revision."""
    scene = await a_scene()
    revision = scene.rollouts.contents.rollouts[Slot("shop")].revision
    scene.refusals.note(a_refusal())
    await scene.refusals.write()

    (row,) = told(scene.rollouts)
    assert (row.actor, row.actor_key, row.subagent_id, row.digest) == ("eve@example", "ab" * 8, "shop", SHOP.digest)
    assert (row.reason, row.request_id) == ("I want to", "r-1")
    assert row.detail == "ROLE_REQUIRED: the role viewer may not call Kill; asked for: Kill"
    assert scene.rollouts.contents.rollouts[Slot("shop")].revision == revision


async def test_whoever_hammers_is_on_record_once_in_a_while_with_how_often() -> None:
    """Of each caller, verb and definition; another verb is another matter."""
    scene = await a_scene()
    for _ in range(1000):
        scene.refusals.note(a_refusal())
        await scene.refusals.write()
    scene.refusals.note(a_refusal(verb="RollBack"))
    scene.rollouts.clock.seconds += EACH.total_seconds()
    scene.refusals.note(a_refusal())
    await scene.refusals.write()

    assert [row.detail.partition("; ")[2] for row in told(scene.rollouts)] == [
        "asked for: Kill",
        "asked for: RollBack",
        "asked for: Kill; 999 like it were left out before",
    ]


async def test_whoever_invents_subjects_cannot_fill_the_record_either() -> None:
    """There is a most for all callers together; it begins anew when its time is over."""
    scene = await a_scene()
    for number in range(10 * MOST):
        scene.refusals.note(a_refusal(f"subject-{number}"))
    await scene.refusals.write()
    before = len(told(scene.rollouts))
    scene.rollouts.clock.seconds += EACH.total_seconds()
    scene.refusals.note(a_refusal("late"))
    await scene.refusals.write()

    assert (before, len(told(scene.rollouts))) == (MOST, MOST + 1)


async def test_what_nobody_knows_is_in_no_row_and_uses_nothing_up() -> None:
    """Names can be invented, too."""
    scene = await a_scene()
    for number in range(10 * MOST):
        scene.refusals.note(a_refusal(name=f"invented-{number}"))
    scene.refusals.note(a_refusal())
    await scene.refusals.write()

    assert [row.subagent_id for row in told(scene.rollouts)] == ["shop"]


async def test_each_replica_and_each_start_counts_for_itself() -> None:
    """Two replicas and a restart: three rows of a caller at most, and never more by going on."""
    scene = await a_scene()
    other = await scene.rollouts.replica("b")
    for refusals in (scene.refusals, noting(other), noting(scene.replica)):
        for _ in range(100):
            refusals.note(a_refusal())
        await refusals.write()

    assert len(told(scene.rollouts)) == 3


async def test_with_the_store_away_a_note_is_counted_and_forgotten() -> None:
    """It waits for nobody, and later ones are written again."""
    scene = await a_scene()
    scene.replica.away(store=True)
    scene.refusals.note(a_refusal())
    await scene.refusals.write()
    scene.replica.away()
    scene.refusals.note(a_refusal(verb="RollBack"))
    await scene.refusals.write()

    assert scene.replica.recorder.of("anomaly") == [("refusal_not_on_record", "Kill of shop")]
    assert [row.detail.rpartition(" ")[2] for row in told(scene.rollouts)] == ["RollBack"]


class Contended(MemoryRollouts):
    """Somebody else is first, some times."""

    times = 2

    async def write(self, change: RolloutWrite) -> None:
        """Be in conflict, or write."""
        if self.times:
            self.times -= 1
            raise RevisionConflict("somebody else was first")
        await super().write(change)


async def test_a_row_is_written_anew_when_somebody_else_writes_first() -> None:
    """The rollout goes on; the refusal is of the definition all the same."""
    scene = await a_scene()
    refusals = noting(scene.replica, Contended(scene.rollouts.clock, scene.rollouts.contents))
    refusals.note(a_refusal())
    await refusals.write()

    assert len(told(scene.rollouts)) == 1


async def test_the_loop_writes_what_is_noted_without_being_asked() -> None:
    """It sleeps until there is something."""
    scene = await a_scene()
    loop = asyncio.ensure_future(scene.refusals.run())
    written = asyncio.Event()
    scene.replica.store.on_change(written.set)
    scene.refusals.note(a_refusal())
    async with asyncio.timeout(5):
        await written.wait()
    loop.cancel()

    assert len(told(scene.rollouts)) == 1


def test_the_first_event_of_a_kind_is_always_admitted() -> None:
    """Also while the monotonic clock is young, as after a start of the machine: no rounding may hold it back."""
    early = [hundredth / 100 for hundredth in range(6_000)]

    assert [now for now in early if RateLimit(timedelta(minutes=1), 3).take("kind", now) != 0] == []


def test_little_is_remembered_of_many() -> None:
    """Twice what is let through, however many come."""
    seldom = RateLimit(timedelta(minutes=1), 3)
    for number in range(2_000):
        seldom.take(number, number * 0.005)
    assert seldom.take(0, 30.0) is None
    assert seldom.take(0, 61.0) == 1
