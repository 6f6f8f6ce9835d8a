"""Decommissions through the RPC: begin, five steps, decisions, and what is in their way."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.errors import StoreUnavailable
from sidecar.core.rollout.states import LifecycleState
from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.decommissions import (
    STEPS,
    begin,
    configuration,
    decide,
    fields_of,
    listed,
    loaded,
    rewards,
    rolled_back,
    shop,
    take,
)
from tests.support.enum_words import word
from tests.support.operators import an_operated_sidecar, gated
from tests.support.requests import failure_of
from tests.support.requirement import requirement

ENTRY, REFERENCES, MODULES, BLOCKS, EVALS_AND_TOOLS = STEPS
EVALS, TOOLS = pb.CLEANUP_SUBJECT_EVALS, pb.CLEANUP_SUBJECT_TOOLS
RETAIN, REMOVE = pb.CLEANUP_CHOICE_RETAIN, pb.CLEANUP_CHOICE_REMOVE


class Record(MemoryStore):
    """A record that may be away."""

    away = False

    async def open_turns(self, limit: int, before: Any = None) -> Any:
        """Return turns, or fail."""
        if self.away:
            raise StoreUnavailable("the record is away", retry_after=timedelta(seconds=1))
        return await super().open_turns(limit, before)


@requirement("PF1-FR-6f")
@pytest.mark.parametrize("state", LifecycleState)
async def test_only_what_is_in_rollback_is_decommissioned_and_that_is_no_state(state: LifecycleState) -> None:
    """Of the four states one; it stays in rollback, the others are told what to do first."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await bench.put(bench.facts(state))
        if state is LifecycleState.ROLLBACK:
            begun = await begin(bench)
            assert (begun.state, begun.HasField("decommission")) == (pb.LIFECYCLE_STATE_ROLLBACK, True)
        else:
            refused = await bench.refused("BeginDecommission")
            assert f"shop is in {state}; only what is in rollback is decommissioned: " in refused.message
            assert await listed(bench) == []


@requirement("PF1-D-41", "PF1-D-42", "PF1-FR-6d", "PF1-FR-6e")
async def test_a_definition_is_taken_away_step_by_step_as_the_configuration_lets_go_of_it() -> None:
    """Marked, unnamed, module gone, entry and block gone, tool gone and evals kept: ended, and so is the list of it."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        began = await begin(bench)
        await loaded(bench, configuration(shop(deprecated=True), rewards()))
        for step in (ENTRY, REFERENCES, MODULES):
            await take(bench, step)
        await loaded(bench, configuration(rewards(), blocks="tone", tools="find pay"))
        await take(bench, BLOCKS)
        await decide(bench, EVALS, RETAIN, sub="bo@example")
        await decide(bench, TOOLS, REMOVE)
        refused = await bench.refused("TakeDecommissionStep", **fields_of(EVALS_AND_TOOLS))
        await loaded(bench, configuration(rewards(), blocks="tone", tools="pay"))
        ended = await take(bench, EVALS_AND_TOOLS)
        open_ones, [all_of_it] = await listed(bench), await listed(bench, finished=True)

    assert (began.changed, began.state, began.decommission.next_step) == (True, pb.LIFECYCLE_STATE_ROLLBACK, ENTRY)
    assert "the tool find still exists, and no other definition uses it" in refused.message
    assert "pay" not in refused.message
    assert ended.decommission.HasField("finished_at")
    assert (ended.decommission.evals.choice, ended.decommission.evals.decided_by) == (RETAIN, "bo@example")
    assert (open_ones, all_of_it.definition_id, list(all_of_it.remaining)) == ([], "shop", [])


@requirement("PF1-D-43")
async def test_each_step_is_on_the_audit_beside_the_transitions_and_says_who_and_why() -> None:
    """The rows say both states rollback; a refused step is there, too."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        await bench.refused("TakeDecommissionStep", **fields_of(REFERENCES))
        await loaded(bench, configuration(shop(deprecated=True), rewards()))
        await take(bench, ENTRY, sub="bo@example", header={"reason": "the patch is merged"})
        rows = (await bench.audit())[-3:]

    first, refused, step = rows
    assert (word(first.decommission, "kind"), word(step.decommission, "kind")) == ("begin", "entry")
    assert (step.decommission.source_state, step.decommission.target_state) == (pb.LIFECYCLE_STATE_ROLLBACK,) * 2
    assert (step.actor, step.reason) == ("bo@example", "the patch is merged")
    assert step.decommission.trigger == pb.TRIGGER_OPERATOR
    assert step.decommission.cohort.agent_definition_version == "definitions-1"
    assert (word(refused.rollout, "kind"), "out of order" in refused.rollout.detail) == ("refused", True)


@requirement("PF1-FR-11a")
async def test_no_step_is_taken_while_anybody_names_it_and_nothing_else_fills_the_slot() -> None:
    """The orchestrator names it: refused by name. Off the list, or the slot filled by another: taken."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        await loaded(bench, configuration(shop(deprecated=True), rewards(), names=["shop", "rewards"]))
        refused = await bench.refused("TakeDecommissionStep", **fields_of(ENTRY))
        [before] = await listed(bench)
        await loaded(bench, configuration(shop(deprecated=True), rewards()))
        taken = await take(bench, ENTRY)

    assert refused.reason == "TRANSITION_REFUSED"
    assert "concierge still names shop in `sub_agents`" in refused.message
    assert any("concierge still names shop" in said for said in before.remaining)
    assert taken.decommission.next_step == REFERENCES


async def test_a_revision_of_what_is_rolled_back_fills_no_slot() -> None:
    """Another one that filled it is being decommissioned, too: its new text is on no record and serves nobody."""
    other, described = gated("store", slot="shop"), gated("store", slot="shop", description="Finds more.")
    async with an_operated_sidecar(shop(), other) as bench:
        gone = msgspec.structs.replace(
            bench.facts(LifecycleState.ROLLBACK),
            digest=other.digest,
            definition_id=other.definition.id,
            shape=other.shape,
        )
        await bench.put(bench.facts(LifecycleState.ROLLBACK), gone)
        await bench.step("BeginDecommission", "store")
        await begin(bench)
        await loaded(bench, configuration(shop(deprecated=True), described, names=["shop"]))
        refused = await bench.refused("TakeDecommissionStep", **fields_of(ENTRY))

    assert described.digest != other.digest
    assert "concierge still names shop in `sub_agents`, and nothing else fills it" in refused.message


async def test_no_step_is_taken_while_a_turn_is_bound_to_it() -> None:
    """A turn was bound before the rollback: neither begin nor a step until it has ended."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await bench.promoted(ramp=9999)
        bound = await bench.sidecar.bind(principal="user-20")
        assert "ask_shop" in [tool.name for tool in bound.surface.sub_agent_tools]
        await bench.step("RollBack")
        begun_too_early = await bench.refused("BeginDecommission")
        await bench.sidecar.end(bound)
        await begin(bench)

    assert begun_too_early.reason == "TRANSITION_REFUSED"
    assert "open turns are bound to shop: 1; wait until" in begun_too_early.message


async def test_a_turn_that_was_bound_to_an_earlier_content_of_it_counts_too() -> None:
    """Its entry was marked deprecated in between, which is a minor revision: another digest of the same definition."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await bench.promoted(ramp=9999)
        [digest] = [each.digest for each in (await bench.status()).definitions]
        bound = await bench.sidecar.bind(principal="user-20")
        await bench.step("RollBack")
        await loaded(bench, configuration(shop(deprecated=True), rewards()))
        [revised] = [each.digest for each in (await bench.status()).definitions]
        begun_too_early = await bench.refused("BeginDecommission")
        await bench.sidecar.end(bound)
        await begin(bench)

    assert revised != digest
    assert "open turns are bound to shop: 1; wait until" in begun_too_early.message


async def test_a_record_that_cannot_say_which_turns_are_open_holds_everything() -> None:
    """Away: begin is neither refused nor done, and the same request is answered once the record is back."""
    store = Record()
    async with an_operated_sidecar(shop(), rewards(), store=store) as bench:
        await rolled_back(bench)
        store.away = True
        held = await bench.refused("BeginDecommission", header={"request_id": "r-held"})
        before = (await bench.store.rollouts())[-1]
        store.away = False
        begun = await bench.step("BeginDecommission", header={"request_id": "r-held"})

    assert held.reason == "STORE_UNAVAILABLE"
    assert all(each.decommission is None for each in before.definitions.values())
    assert (begun.changed, begun.repeated) == (True, False)


async def test_a_configuration_that_was_never_loaded_holds_every_step() -> None:
    """Nobody can say what it still names."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        bench.sidecar.definitions.load(None)
        refused = await bench.refused("TakeDecommissionStep", **fields_of(ENTRY))
        [status] = await listed(bench)

    assert "it has not been loaded" in refused.message
    assert "cannot be found out" in status.remaining[0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"step": 0}, "step must be one of CLEANUP_STEP_ENTRY"),
        ({"step": 99}, "step must be one of CLEANUP_STEP_ENTRY"),
        ({"step": MODULES, "confirmed": "x"}, "code is missing"),
        ({"step": ENTRY, "code": pb.CODE_STATUS_GONE}, "code goes with step 3 only"),
        ({"step": MODULES, "code": 7, "confirmed": "x"}, "code must be one of"),
        ({"step": MODULES, "code": pb.CODE_STATUS_GONE, "confirmed": "x\ny"}, "confirmed holds control"),
        ({"step": MODULES, "code": pb.CODE_STATUS_GONE, "confirmed": "x" * 1001}, "confirmed is over 1000"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(fields: dict[str, Any], said: str) -> None:
    """Before anything is looked at."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        refused = await bench.refused("TakeDecommissionStep", **fields)
    assert refused.reason == "INVALID_REQUEST"
    assert said in refused.message


async def test_a_dry_run_says_what_would_come_of_it_and_writes_nothing() -> None:
    """Begin as a dry run, then look."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        tried = await begin(bench, header={"dry_run": True})
        rows = await bench.audit()
        found = await listed(bench)

    assert (tried.changed, tried.decommission.next_step) == (False, ENTRY)
    assert (found, [row for row in rows if row.HasField("decommission")]) == ([], [])


@requirement("PF1-D-44")
async def test_it_is_undone_until_the_code_is_gone_and_the_entry_that_comes_back_serves_nobody() -> None:
    """Undone after two steps: the state is rollback, the entry is restored, nobody is offered it. Later: refused."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        await loaded(bench, configuration(rewards()))
        await take(bench, ENTRY)
        await take(bench, REFERENCES)
        undone = await bench.step("UndoDecommission")
        await loaded(bench, configuration(shop(), rewards(), names=["shop", "rewards"]))
        status, offered = await bench.status(), await bench.offers("user-20")
        await begin(bench)
        await loaded(bench, configuration(rewards()))
        for step in (ENTRY, REFERENCES, MODULES):
            await take(bench, step)
        too_late = await bench.refused("UndoDecommission")

    assert (undone.state, undone.HasField("decommission")) == (pb.LIFECYCLE_STATE_ROLLBACK, False)
    assert (status.definitions[0].state, offered) == (pb.LIFECYCLE_STATE_ROLLBACK, [])
    assert "the code of shop is deleted" in too_late.message


async def test_once_begun_it_is_neither_revised_nor_killed() -> None:
    """DESIGN section 8. The deprecated entry is another digest, and the record goes on being about the one."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest = await rolled_back(bench)
        await begin(bench)
        killed = await bench.refused("Kill")
        await loaded(bench, configuration(shop(deprecated=True), rewards()))
        status = await bench.status()

    assert "being decommissioned" in killed.message
    assert [each.digest for each in status.definitions] == [digest]


@requirement("PF1-NFR-5a")
async def test_when_the_window_has_passed_every_view_says_so() -> None:
    """One second before, and then: list, slot, log once a day and not twice; and once on the audit."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        watch = bench.rollout.watch_decommissions
        bench.clock.time += timedelta(days=90, seconds=-1)
        await watch.look()
        before = (await listed(bench))[0].overdue, (await bench.status()).definitions[0].decommission_overdue
        quiet = len(bench.sidecar.recorder.of("anomaly"))
        bench.clock.time += timedelta(seconds=1)
        for hours in (0, 1, 22, 1, 0):
            bench.clock.time += timedelta(hours=hours)
            await watch.look()
        after = (await listed(bench))[0].overdue, (await bench.status()).definitions[0].decommission_overdue
        said = bench.sidecar.recorder.of("anomaly")[quiet:]
        rows = await bench.audit()

    assert (before, after) == ((False, False), (True, True))
    assert [kind for kind, _ in said] == ["decommission_overdue"] * 2
    assert "shop: begun 2026-11-22, due 2027-02-20; " in said[0][1]
    late = [row for row in rows if row.rollout.kind == pb.ROLLOUT_EVENT_KIND_DECOMMISSION_OVERDUE]
    assert [(row.rollout.definition_id, row.actor) for row in late] == [("shop", "decommission-watch")]


async def test_of_two_operators_at_once_one_takes_the_step_and_the_other_reads_again() -> None:
    """Both know the same revision: one is on record; asked again, the other finds the step taken."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        await loaded(bench, configuration(rewards()))
        revision = await bench.revision()
        both = await asyncio.gather(
            *(
                take(bench, ENTRY, sub=who, header={"expected_revision": revision, "request_id": who})
                for who in ("ada@example", "bo@example")
            ),
            return_exceptions=True,
        )
        again = await take(bench, ENTRY, sub="bo@example")
        rows = [row for row in await bench.audit() if row.HasField("decommission")]

    lost = [each for each in both if isinstance(each, BaseException)]
    assert len(lost) == 1
    assert (await failure_of(_raise(lost[0]))).reason == "REVISION_CONFLICT"
    assert (again.changed, [word(row.decommission, "kind") for row in rows]) == (False, ["begin", "entry"])


async def _raise(error: BaseException) -> None:
    raise error


@requirement("PF1-NFR-5b")
async def test_in_the_window_the_deprecated_entry_stays_for_replay_and_is_never_offered() -> None:
    """Served to all, rolled back, marked: no bind offers it from then on, listed or not; its card is still known."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest = bench.facts(LifecycleState.PROMOTE).digest
        await bench.put(bench.facts(LifecycleState.PROMOTE, ramp=10_000), active=digest)
        bench.flags.on |= dict.fromkeys(("ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"), True)
        bound = await bench.sidecar.bind(principal="user-20")
        before = [tool.name for tool in bound.surface.sub_agent_tools]
        await bench.sidecar.end(bound)
        await bench.step("RollBack")
        await begin(bench)
        offered = []
        for names in (["shop", "rewards"], ["rewards"]):
            await loaded(bench, configuration(shop(deprecated=True), rewards(), names=names))
            offered.append(await bench.offers("user-20"))
        await take(bench, ENTRY)
        [definition] = (await bench.status()).definitions
        kept = await bench.store.definition(digest)

    assert (before, offered) == (["ask_shop"], [[], []])
    assert definition.decommission.next_step == REFERENCES
    assert kept is not None


class Frozen:
    """A policy that allows nothing, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny."""
        self.asked.append(facts.step)
        return PolicyAnswer("nothing changes this week")


async def test_policies_are_asked_about_begin_and_steps_and_not_about_decisions_and_undo() -> None:
    """A freeze holds what takes something away; what decides, or takes a step back, goes on."""
    freeze = Frozen()
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        bench.policies.append(("freeze", freeze))
        not_begun = await bench.refused("BeginDecommission")
        bench.policies.clear()
        await begin(bench)
        await loaded(bench, configuration(rewards()))
        bench.policies.append(("freeze", freeze))
        not_taken = await bench.refused("TakeDecommissionStep", **fields_of(ENTRY))
        await decide(bench, EVALS, RETAIN)
        await bench.step("UndoDecommission")

    assert [not_begun.reason, not_taken.reason] == ["POLICY_DENIED"] * 2
    assert freeze.asked == ["decommission", "decommission"]
