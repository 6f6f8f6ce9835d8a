"""Decommissions through the RPC: begin, five steps, decisions, and what is in their way."""

import asyncio
from typing import Any

import msgspec
import pytest

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
