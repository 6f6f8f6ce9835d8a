"""Audit events: emitted at the bind that shows a transition, once over all replicas, to every sink, and never lost."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from sidecar.core.identifiers import InstanceId
from sidecar.core.rollout.events import AuditCohort, RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.observability.audit.boundary import BoundedSink
from sidecar.observability.audit.sinks import CollectorRefused, OtlpAuditSink, written
from sidecar.operations.rollout.audit.export import AuditExport
from sidecar.operations.rollout.audit.queries import ActivityQuery, ReadActivity
from sidecar.operations.rollout.store.ports import RolloutWrite
from sidecar.policy.audit import AuditEntry
from tests.support.requirement import requirement
from tests.support.stopping import REWARDS, SHOP, ReplicaForTests, Rollouts, a_kill


class KeepingSink:
    """A sink that keeps what it is given, or fails."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.taken: list[AuditEntry] = []
        self.fails = False
        self.asked = 0

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Take them."""
        self.asked += 1
        if self.fails:
            raise ConnectionError("the sink was told to fail")
        self.taken += entries

    async def close(self) -> None:
        """Hold nothing open."""

    @property
    def transitions(self) -> list[str]:
        """Return the ids of the lifecycle events."""
        return [entry.event_id for entry in self.taken if isinstance(entry.body, TransitionEvent)]


class Clinging:
    """A sink that takes a cancellation for nothing."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.begun, self.go_on, self.asked = asyncio.Event(), asyncio.Event(), 0

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Wait, whatever happens."""
        self.asked += 1
        self.begun.set()
        while not self.go_on.is_set():
            with suppress(asyncio.CancelledError):
                await self.go_on.wait()

    async def close(self) -> None:
        """Hold nothing open."""


class Collecting:
    """A way to a collector that takes what it is sent, or refuses."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self.sent: list[Any] = []
        self.takes = True

    def __call__(self, records: Sequence[Any]) -> bool:
        """Take them."""
        self.sent.extend(records)
        return self.takes

    def close(self) -> None:
        """Hold nothing open."""


def exporting(replica: ReplicaForTests, name: str, **sinks: KeepingSink) -> AuditExport:
    """Return the export of a replica."""
    return AuditExport(replica.store, sinks, InstanceId(name), replica.clock, cast("Any", replica.recorder))


async def killed(rollouts: Rollouts) -> ReplicaForTests:
    """Return a replica that has killed the shop, and where no turn was bound since."""
    rollouts.serve(SHOP, REWARDS)
    replica = await rollouts.replica()
    replica.stops.rollouts()
    await replica.stops.effective.look()
    await replica.stops.kill(a_kill(SHOP), "alice")
    return replica


@requirement("PF1-D-48", "PF1-D-49")
async def test_a_transition_is_emitted_at_the_bind_that_shows_it_and_a_ramp_is_no_transition() -> None:
    """Before any bind only the rollout event leaves; the next bind sets the time of the transition."""
    rollouts = Rollouts()
    replica = await killed(rollouts)
    sink = KeepingSink()
    export = exporting(replica, "a", sink=sink)
    await replica.stops.effective.look()
    await export.look()
    assert [type(entry.body) for entry in sink.taken] == [RolloutEvent]

    rollouts.clock.seconds += 7
    replica.stops.rollouts()
    bound_at = rollouts.clock.now()
    await replica.stops.effective.look()
    await export.look()

    assert sink.transitions == [f"{SHOP.digest}/rollback"]
    assert sink.taken[-1].effective_at == bound_at
    assert [event.trigger for (event,) in replica.recorder.of("transitioned")] == [Trigger.KILL_SWITCH]
    ((subagent_id, seconds),) = replica.recorder.of("rolled_back")
    assert (subagent_id, round(seconds)) == ("shop", 7)


async def test_a_transition_is_counted_by_one_replica_however_many_bind() -> None:
    """Three replicas bind after a kill."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replicas = [await rollouts.replica(name) for name in "abc"]
    await replicas[0].stops.kill(a_kill(SHOP), "alice")
    for replica in replicas * 2:
        await replica.look()
        replica.stops.rollouts()
        await replica.stops.effective.look()
    assert sum(len(replica.recorder.of("transitioned")) for replica in replicas) == 1


async def test_a_bind_with_the_same_view_costs_a_comparison() -> None:
    """The thousandth bind asks no clock and queues nothing."""
    rollouts = Rollouts()
    replica = await killed(rollouts)
    replica.stops.rollouts()
    before = rollouts.clock.seconds
    for _ in range(1000):
        replica.stops.rollouts()
    assert rollouts.clock.seconds == before


async def test_what_the_store_does_not_take_at_first_is_told_again_with_its_first_time() -> None:
    """The store is away when the bind shows a kill that only this replica knows of."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    replica.away(store=True)
    await replica.stops.kill(a_kill(SHOP), "alice")
    replica.stops.rollouts()
    bound_at = rollouts.clock.now()
    rollouts.clock.seconds += 50
    await replica.look()
    replica.away()
    await replica.look()
    replica.stops.rollouts()
    await replica.stops.effective.look()
    (row,) = [row for row in rollouts.contents.audit.values() if isinstance(row.body, TransitionEvent)]
    assert row.effective_at == bound_at


async def test_a_transition_of_a_definition_that_was_revised_before_any_bind_is_not_lost() -> None:
    """The view never shows the digest that it is about."""
    rollouts = Rollouts()
    rollouts.serve(REWARDS)
    slot = REWARDS.definition.slot
    event = TransitionEvent(
        slot=slot,
        subagent_id=REWARDS.definition.id,
        digest=SHOP.digest,
        source_state=LifecycleState.TEST,
        target_state=LifecycleState.PROMOTE,
        trigger=Trigger.GATE,
        agent_definition_commit=SHOP.commit,
        cohort=AuditCohort("5", (), 0.0),
        at=rollouts.clock.now(),
        actor="alice",
        reason="good",
        request_id="r",
    )
    rollouts.contents.write(RolloutWrite(slot=slot, expected_revision=1, transitions=(event,)))
    replica = await rollouts.replica()
    replica.stops.rollouts()
    await replica.stops.effective.look()
    assert replica.recorder.of("transitioned") == [(event,)]


async def test_a_sink_that_fails_keeps_the_rows_and_costs_the_other_sinks_nothing() -> None:
    """One is away: the other gets each event once; when it is back, both have all, and nothing waits."""
    rollouts = Rollouts()
    replica = await killed(rollouts)
    replica.stops.rollouts()
    await replica.stops.effective.look()
    good, bad = KeepingSink(), KeepingSink()
    export = exporting(replica, "a", good=good, bad=bad)
    bad.fails = True
    for _ in range(3):
        await export.look()
    rollouts.clock.seconds += 100
    assert (len(good.taken), good.asked, bad.asked) == (2, 1, 3)
    assert export.waiting_seconds > 90
    bad.fails = False
    await export.look()
    await export.look()
    assert (good.transitions, bad.transitions) == ([f"{SHOP.digest}/rollback"],) * 2
    assert export.waiting_seconds == 0
    assert all(row.exported for row in rollouts.contents.audit.values())


async def test_a_sink_that_is_away_for_long_keeps_no_row_from_the_others() -> None:
    """Five hundred events while one is away: the other has them all; back again it gets them all, in order."""
    rollouts = Rollouts()
    replica = await killed(rollouts)
    good, bad = KeepingSink(), KeepingSink()
    export = exporting(replica, "a", good=good, bad=bad)
    bad.fails = True
    await export.look()
    slot = SHOP.definition.slot
    revision = rollouts.contents.rollouts[slot].revision
    many = tuple(_happened(rollouts, RolloutEventKind.REFUSED, number, f"r{number}") for number in range(500))
    rollouts.contents.write(RolloutWrite(slot=slot, expected_revision=revision, events=many))
    await export.look()
    assert (len(good.taken), len(bad.taken)) == (501, 0)
    bad.fails = False
    await export.look()
    await export.look()
    assert [entry.number for entry in bad.taken] == [entry.number for entry in good.taken]
    assert all(row.exported for row in rollouts.contents.audit.values() if isinstance(row.body, RolloutEvent))


async def test_a_sink_that_hangs_is_given_up_and_keeps_no_row_from_the_others() -> None:
    """It clings to its batch although it is cancelled: the look ends, and the next one does not call it again."""
    rollouts = Rollouts()
    replica = await killed(rollouts)
    good, clinging = KeepingSink(), Clinging()
    export = exporting(replica, "a", good=good, clinging=cast("Any", BoundedSink("clinging", clinging)))
    try:
        look = asyncio.ensure_future(export.look())
        await clinging.begun.wait()
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)
        async with asyncio.timeout(5):
            await export.look()
    finally:
        clinging.go_on.set()
    assert (len(good.taken), clinging.asked) == (1, 1)
    assert [detail for _, detail in replica.recorder.of("anomaly")] == ["clinging: SinkStuck"]


async def test_one_replica_exports_and_another_takes_over_what_waits_for_long() -> None:
    """The first by its id has a sink that is away; the second one waits a minute."""
    rollouts = Rollouts()
    first = await killed(rollouts)
    second = await rollouts.replica("b")
    sink = KeepingSink()
    export = exporting(second, "b", sink=sink)
    await export.look()
    assert sink.taken == []
    rollouts.clock.seconds += 61
    await first.look()
    await export.look()
    assert [entry.body.digest for entry in sink.taken] == [SHOP.digest]


async def test_many_transitions_that_no_turn_has_met_do_not_hold_up_the_others() -> None:
    """Three hundred of them stand before one ramp."""
    rollouts = Rollouts()
    replica = await killed(rollouts)
    (event,) = rollouts.transitions()
    many = [_of_digest(event, f"digest-{number}") for number in range(300)]
    slot = SHOP.definition.slot
    revision = rollouts.contents.rollouts[slot].revision
    (happened,) = [row.body for row in rollouts.contents.audit.values() if isinstance(row.body, RolloutEvent)]
    rollouts.contents.write(RolloutWrite(slot=slot, expected_revision=revision, transitions=tuple(many)))
    sink = KeepingSink()
    export = exporting(replica, "a", sink=sink)
    await export.look()
    rollouts.contents.write(RolloutWrite(slot=slot, expected_revision=revision, events=(happened,)))
    await export.look()
    assert len(sink.taken) == 2


@requirement("PF1-D-45", "PF1-D-46")
async def test_the_event_has_the_fields_of_the_specification() -> None:
    """Names, keys of `cohort`, and the ramp as a number, as it was at the moment of the event."""
    rollouts = Rollouts()
    await killed(rollouts)
    (event,) = rollouts.transitions()
    fields = written(AuditEntry(event.event_id, 1, event, None)).fields
    assert {name: fields[name] for name in list(fields)[:7]} == {
        "event": "subagent.lifecycle.transition",
        "subagent_id": "shop",
        "source_state": "promote",
        "target_state": "rollback",
        "trigger": "kill_switch",
        "agent_definition_commit": SHOP.commit,
        "cohort": {
            "agent_definition_version": "5",
            "active_flags": sorted(
                f"ai_assistant_subagent_{name}{end}" for name in ("rewards", "shop") for end in ("", "_cohort")
            ),
            "ramp_step_percent": 100,
        },
    }


async def test_a_collector_that_refuses_is_a_sink_that_fails() -> None:
    """What was sent counts only once it was taken; the record carries name, time and fields."""
    rollouts = Rollouts()
    await killed(rollouts)
    (event,) = rollouts.transitions()
    collector = Collecting()
    sent = collector.sent
    entry = written(AuditEntry(event.event_id, 1, event, rollouts.clock.now()))
    await OtlpAuditSink(collector).take([entry])
    assert (sent[0].event, sent[0].fields["subagent_id"]) == ("subagent.lifecycle.transition", "shop")
    assert sent[0].created == rollouts.clock.now().timestamp()
    collector.takes = False
    with pytest.raises(CollectorRefused):
        await OtlpAuditSink(collector).take([entry])


@requirement("PF1-D-50")
async def test_the_audit_says_when_a_sub_agent_became_active_for_a_cohort() -> None:
    """5 %, 50 %, killed: a key inside 5 %, the first 30 % as a whole, and everybody."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, ramp=5_000)
    slot, at = SHOP.definition.slot, {}
    for number, (what, after) in enumerate(
        ((RolloutEventKind.SEEN, 0), (RolloutEventKind.RAMP_SET, 500), (RolloutEventKind.RAMP_SET, 5_000))
    ):
        rollouts.clock.seconds += 60
        at[after] = rollouts.clock.now()
        events = [_happened(rollouts, what, after, f"r{number}")]
        if after == 500:
            promoted = _moved(rollouts, LifecycleState.TEST, LifecycleState.PROMOTE, f"r{number}")
            rollouts.contents.write(RolloutWrite(slot=slot, expected_revision=1, transitions=(promoted,)))
            events.append(_happened(rollouts, RolloutEventKind.ACTIVATED, 0, f"r{number}"))
        rollouts.contents.write(RolloutWrite(slot=slot, expected_revision=1, events=tuple(events)))
    replica = await rollouts.replica()
    rollouts.clock.seconds += 60
    await replica.stops.kill(a_kill(SHOP), "alice")
    killed_at = rollouts.transitions()[-1].at
    read = ReadActivity(replica.store)

    inside = (await read(ActivityQuery(definition_id=SHOP.definition.id, share=300))).periods
    third = (await read(ActivityQuery(definition_id=SHOP.definition.id, share=3_000))).periods
    everybody = (await read(ActivityQuery(definition_id=SHOP.definition.id, share=10_000))).periods

    assert [(each.since, each.until, each.ramp) for each in inside] == [(at[500], killed_at, 500)]
    assert [(each.since, each.until, each.request_id) for each in third] == [(at[5_000], killed_at, "r2")]
    assert everybody == ()


def _happened(rollouts: Rollouts, what: RolloutEventKind, after: int, request_id: str) -> RolloutEvent:
    return RolloutEvent(
        slot=SHOP.definition.slot,
        subagent_id=SHOP.definition.id,
        digest=SHOP.digest,
        what=what,
        at=rollouts.clock.now(),
        actor="alice",
        reason="a step",
        request_id=request_id,
        after=after,
    )


def _moved(rollouts: Rollouts, source: LifecycleState, target: LifecycleState, request_id: str) -> TransitionEvent:
    return TransitionEvent(
        slot=SHOP.definition.slot,
        subagent_id=SHOP.definition.id,
        digest=SHOP.digest,
        source_state=source,
        target_state=target,
        trigger=Trigger.GATE,
        agent_definition_commit=SHOP.commit,
        cohort=AuditCohort("5", (), 0.0),
        at=rollouts.clock.now(),
        actor="alice",
        reason="a step",
        request_id=request_id,
    )


def _of_digest(event: TransitionEvent, digest: str) -> TransitionEvent:
    return TransitionEvent(**{**_fields(event), "digest": digest})


def _fields(event: TransitionEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in TransitionEvent.__struct_fields__}
