"""The kill switch through the RPC: the next bind leaves the sub-agent out for everybody, the running turn finishes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from sidecar.core.identifiers import InstanceId
from sidecar.core.rollout.events import TransitionEvent
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.observability.audit.boundary import BoundedSink
from sidecar.observability.audit.sinks import OtlpAuditSink, written
from sidecar.observability.exposition import exposition
from sidecar.observability.metrics import Metrics
from sidecar.observability.otlp.exporters import Collector
from sidecar.observability.outbox import Signal
from sidecar.observability.redaction import Redactor
from sidecar.observability.rollout_recorder import MeasuringRolloutRecorder
from sidecar.observability.tracing import sender
from sidecar.operations.rollout.audit.export import AuditExport
from sidecar.policy.audit import AuditEntry
from tests.support.enum_words import word
from tests.support.fake_runner import waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.otlp_receiver import otlp_receiver
from tests.support.requirement import requirement
from tests.support.stopping import REWARDS, SHOP, ReplicaForTests, Rollouts, a_kill

FLAG = "ai_assistant_subagent_shop"
USERS = tuple(f"user-{number}" for number in range(20))


@dataclass(frozen=True)
class Serving:
    """A sidecar with two sub-agents in full ramp, and what stops them."""

    rollouts: Rollouts
    replica: ReplicaForTests
    sidecar: SidecarForTests

    async def tools(self, principal: str = "user-1") -> list[str]:
        """Return the sub-agents' tools of a new turn."""
        bound = await self.sidecar.bind(principal=principal)
        return [tool.name for tool in bound.surface.sub_agent_tools]


@asynccontextmanager
async def serving(**shop: Any) -> AsyncIterator[Serving]:
    """Serve them while the context is open; `shop` are facts of the first one."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, **shop)
    rollouts.serve(REWARDS)
    replica = await rollouts.replica()
    chosen: dict[str, Any] = {"flags": replica.snapshots, "rollouts": replica.stops.rollouts}
    async with running_sidecar_for_tests(cards=(SHOP, REWARDS), **chosen) as sidecar:
        yield Serving(rollouts, replica, sidecar)


@requirement("PF1-AC-4a", "PF1-FR-9b", "PF1-FR-9c", "PF1-T-4")
async def test_with_the_kill_flag_off_the_next_bind_leaves_the_sub_agent_out_for_every_user() -> None:
    """Twenty users, whatever their bucket and arm; the other sub-agent stays."""
    async with serving() as run:
        assert await run.tools() == ["ask_shop", "ask_rewards"]
        run.rollouts.backend.set(FLAG, on=False)
        await run.replica.look()
        for user in USERS:
            assert await run.tools(user) == ["ask_rewards"]


@requirement("PF1-AC-4b", "PF1-FR-9d", "PF1-FR-8b")
async def test_a_turn_that_runs_finishes_where_it_began_and_the_state_becomes_rollback() -> None:
    """Killed while the sub-agent works: its answer arrives; a turn begun afterwards has no such tool."""
    async with serving() as run:
        bound, go_on = await run.sidecar.bind(), asyncio.Event()
        run.sidecar.runner.use("shop", waits_for(go_on))
        reply = asyncio.ensure_future(run.sidecar.dispatch(bound, "ask_shop"))
        await run.sidecar.runner.until_started("shop")

        answer = await run.replica.stops.kill(a_kill(SHOP), "alice")
        assert await run.tools() == ["ask_rewards"]
        go_on.set()

        assert (await reply).outcomes == ["SUCCEEDED"]
        assert answer.reached == ("replica", "flag", "record")
        assert run.rollouts.facts(SHOP).state is LifecycleState.ROLLBACK
        assert (await run.sidecar.dispatch(bound, "ask_shop")).outcomes == ["SUCCEEDED"]


@requirement("PF1-T-9")
async def test_the_flag_off_while_a_turn_runs_ends_new_turns_and_leaves_that_one_alone() -> None:
    """Nobody calls for a kill: the flag falls, the next bind has no such tool, and the state follows."""
    async with serving() as run:
        bound, go_on = await run.sidecar.bind(), asyncio.Event()
        run.sidecar.runner.use("shop", waits_for(go_on))
        reply = asyncio.ensure_future(run.sidecar.dispatch(bound, "ask_shop"))
        await run.sidecar.runner.until_started("shop")

        run.rollouts.backend.set(FLAG, on=False)
        await run.replica.look()
        after, state = await run.tools(), run.rollouts.facts(SHOP).state
        go_on.set()

        assert (after, state) == (["ask_rewards"], LifecycleState.ROLLBACK)
        assert (await reply).outcomes == ["SUCCEEDED"]
        assert (await run.sidecar.dispatch(bound, "ask_shop", dispatch_id="d-2")).outcomes == ["SUCCEEDED"]
        (child, again) = (await run.sidecar.end(bound)).children
        assert (word(child, "final_status"), word(again, "final_status")) == ("completed", "completed")


@requirement("PF1-FR-8a")
@pytest.mark.parametrize(("store", "backend"), [(True, False), (False, True), (True, True)])
async def test_a_kill_shows_at_the_next_bind_whoever_is_away(store: bool, backend: bool) -> None:
    """Store, backend or both are away; both come back, and it never serves again."""
    async with serving() as run:
        run.replica.away(store=store, backend=backend)
        await run.replica.stops.kill(a_kill(SHOP), "alice")
        assert await run.tools() == ["ask_rewards"]
        run.replica.away()
        for _ in range(2):
            await run.replica.look()
            assert await run.tools() == ["ask_rewards"]
        assert len(run.rollouts.transitions()) == 1


async def test_a_kill_is_on_record_again_after_the_database_was_restored_as_it_was_before() -> None:
    """The record says that it serves everybody: nobody is offered it, and soon the record says rollback again."""
    async with serving() as run:
        kept = run.rollouts.contents
        before = dict(kept.rollouts)
        await run.replica.stops.kill(a_kill(SHOP), "alice")
        for lost in (kept.audit, kept.numbers, kept.noted_by, kept.answers):
            lost.clear()
        kept.rollouts, kept.version = before, kept.version + 1
        await run.replica.views.look()
        offered = await run.tools()
        await run.replica.look()

        assert (offered, await run.tools()) == (["ask_rewards"], ["ask_rewards"])
        assert run.rollouts.facts(SHOP).state is LifecycleState.ROLLBACK
        assert [event.actor for event in run.rollouts.transitions()] == ["alice"]


async def test_a_flag_backend_that_is_away_takes_it_off_and_never_moves_its_state() -> None:
    """Stale is absent for new turns, and nothing else; back again it serves again."""
    async with serving() as run:
        run.replica.away(backend=True)
        run.rollouts.clock.seconds += 60
        await run.replica.look()
        assert await run.tools() == []
        run.replica.away()
        await run.replica.look()
        assert await run.tools() == ["ask_shop", "ask_rewards"]
        assert run.rollouts.transitions() == []


async def test_a_flag_that_falls_while_its_backend_is_away_kills_once_it_is_back() -> None:
    """Only this sidecar knows that it was on; switched on again afterwards, it brings nobody back."""
    async with serving(confirmed_on="") as run:
        run.rollouts.clock.seconds += 1
        await run.replica.look()
        assert await run.tools() == ["ask_shop", "ask_rewards"]
        run.replica.away(backend=True)
        run.rollouts.backend.set(FLAG, on=False)
        run.rollouts.clock.seconds += 60
        await run.replica.look()
        assert (await run.tools(), run.rollouts.transitions()) == ([], [])
        run.replica.away()
        await run.replica.look()
        run.rollouts.backend.set(FLAG, on=True)
        await run.replica.look()
        assert await run.tools() == ["ask_rewards"]
        assert [event.trigger for event in run.rollouts.transitions()] == [Trigger.KILL_SWITCH]


@requirement("PF1-FR-10a", "PF1-FR-10b", "PF1-AC-8", "PF1-T-17")
async def test_the_bind_that_shows_a_kill_emits_its_audit_event_with_every_field_to_the_sink() -> None:
    """Once, however many turns are bound; it is stored as it is sent."""
    async with serving() as run:
        await run.tools()
        await run.replica.stops.kill(a_kill(SHOP), "alice")
        sink = Kept()
        export = AuditExport(
            run.replica.store, {"kept": sink}, InstanceId("a"), run.rollouts.clock, cast("Any", run.replica.recorder)
        )
        for _ in range(3):
            await run.tools()
            await run.replica.look()
            await export.look()
        (fields,) = [each for each in sink.fields if each["event"] == "subagent.lifecycle.transition"]
        minimum = ("subagent_id", "source_state", "target_state", "trigger", "agent_definition_commit")
        assert [fields[name] for name in minimum] == ["shop", "promote", "rollback", "kill_switch", SHOP.commit]
        assert set(fields["cohort"]) == {"agent_definition_version", "active_flags", "ramp_step_percent"}
        assert (fields["actor"], fields["reason"]) == ("alice", "it says nonsense")


@requirement("PF1-FR-10c", "PF1-AC-8")
async def test_the_audit_event_reaches_a_collector_over_otlp_and_waits_while_there_is_none() -> None:
    """The collector is away at first: the row stays; then it comes with event name and the keys of `cohort`."""
    async with serving() as run, otlp_receiver() as collector:
        await run.replica.stops.kill(a_kill(SHOP), "alice")
        await run.tools()
        await run.replica.look()
        contact = Contact(await asyncio.to_thread(Collector, collector.endpoint, sender(), Redactor()))
        export = AuditExport(
            run.replica.store,
            {"otlp": BoundedSink("otlp", OtlpAuditSink(contact))},
            InstanceId("a"),
            run.rollouts.clock,
            cast("Any", run.replica.recorder),
        )
        await export.look()
        assert collector.logs == []
        contact.away = False
        await export.look()
        event = await collector.log("subagent.lifecycle.transition")
        assert (event.attributes["subagent_id"], event.attributes["trigger"]) == ("shop", "kill_switch")
        assert event.attributes["cohort"]["ramp_step_percent"] == 100
        assert all(row.exported for row in run.rollouts.contents.audit.values())
        await asyncio.to_thread(contact.collector.close)


@requirement("PF1-OBS-1", "PF1-OBS-3", "PF1-OBS-4")
async def test_the_metrics_of_a_kill_have_the_names_and_labels_of_the_specification() -> None:
    """One transition, one kill, and how long it took until a bind showed it."""
    async with serving() as run:
        await run.replica.stops.kill(a_kill(SHOP), "alice")
        await run.tools()
        await run.replica.look()
        metrics = Metrics()
        recorder = MeasuringRolloutRecorder(metrics, lambda kind, detail: None)
        for told, arguments in run.replica.recorder.told:
            getattr(recorder, told)(*arguments)
        page = exposition(metrics, "text/plain")[0].decode().replace(".", "_")
        moved = 'source_state="promote",subagent_id="shop",target_state="rollback",trigger="kill_switch"'
        assert f"subagent_lifecycle_transition_total{{{moved}}} 1_0" in page
        assert 'subagent_lifecycle_kill_switch_fired_total{subagent_id="shop"} 1_0' in page
        assert 'subagent_lifecycle_kill_switch_fired_total{subagent_id="rewards"} 0_0' in page
        assert 'subagent_lifecycle_rollback_duration_seconds_count{subagent_id="shop"} 1_0' in page


class Contact:
    """A way to a collector that is interrupted at first."""

    def __init__(self, collector: Collector) -> None:
        """Begin away."""
        self.collector = collector
        self.away = True

    def __call__(self, records: Any) -> bool:
        """Send log records."""
        return not self.away and self.collector.ship[Signal.LOGS](records)

    def close(self) -> None:
        """Leave it to the test."""


class Kept:
    """A sink that keeps the fields of what it is given."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.fields: list[dict[str, Any]] = []

    async def take(self, entries: Any) -> None:
        """Take them."""
        for entry in cast("list[AuditEntry]", entries):
            assert isinstance(entry.body, TransitionEvent) or entry.effective_at is None
            self.fields.append(dict(written(entry).fields))

    async def close(self) -> None:
        """Hold nothing open."""
