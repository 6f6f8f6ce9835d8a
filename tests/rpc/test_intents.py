"""How many intents a response had, and whether it turned to sub-agents that were not in the conversation before."""

from typing import Any

import pytest

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requests import a_call, failure_of
from tests.support.requirement import requirement

STRICT = {"strict_prior_context": True}


async def a_turn(sidecar: SidecarForTests, *tools: str, **fields: Any) -> outcome_pb2.IntentReport:
    """Bind, dispatch and end one turn of the episode; return the intents of its response."""
    bound = await sidecar.bind()
    reply = await sidecar.dispatch(bound, *tools, **fields)
    await sidecar.end(bound)
    return reply.result.intents


@requirement("PC2-T-13")
async def test_turning_to_another_sub_agent_is_a_switch_and_the_summary_comes_along() -> None:
    """First shop, then rewards: the second response switched, and rewards got the orchestrator's summary."""
    async with running_sidecar_for_tests() as sidecar:
        first = await a_turn(sidecar, "ask_shop")
        second = await a_turn(sidecar, "ask_rewards", prior_context="Wants milk.")

        assert (first.switched, second.switched, second.prior_context_missing) == (False, True, False)
        assert sidecar.runner.request_of("rewards").context.prior_context == "Wants milk."
        assert sidecar.recorder.of("prior_context_missing") == []


async def test_going_on_with_the_same_sub_agents_is_no_switch() -> None:
    """Two, then one of them; one more beside a known one is a switch again."""
    async with running_sidecar_for_tests() as sidecar:
        turns = [
            await a_turn(sidecar, "ask_shop", "ask_rewards"),
            await a_turn(sidecar, "ask_rewards"),
            await a_turn(sidecar, "ask_rewards", "ask_support", prior_context="x"),
        ]
        assert [intents.switched for intents in turns] == [False, False, True]


async def test_a_turn_without_a_dispatch_does_not_change_what_came_before() -> None:
    """Shop, then a turn that calls nobody, then rewards: still a switch; the bind says who was called."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop")
        await sidecar.end(await sidecar.bind())

        bound = await sidecar.bind()
        assert list(bound.surface.previous_sub_agents.sub_agent_ids) == ["shop"]
        assert (await sidecar.dispatch(bound, "ask_rewards", prior_context="x")).result.intents.switched


async def test_another_episode_begins_without_a_past() -> None:
    """Rewards in a new episode of the same user is no switch."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop")
        bound = await sidecar.bind(episode_id="episode-2")

        reply = await sidecar.dispatch(bound, "ask_rewards")

        assert bound.surface.previous_sub_agents.known
        assert list(bound.surface.previous_sub_agents.sub_agent_ids) == []
        assert not reply.result.intents.switched


async def test_a_switch_without_a_summary_is_counted_and_carried_out() -> None:
    """Missing, and blank: both counted, both run, both marked in the result and in the routing decision."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop")
        bound = await sidecar.bind()

        reply = await sidecar.dispatch(bound, "ask_rewards", prior_context="  \n")

        assert (reply.outcomes, reply.result.intents.prior_context_missing) == (["SUCCEEDED"], True)
        assert sidecar.recorder.of("prior_context_missing") == [("concierge",)]
        (intents,) = (await sidecar.end(bound)).routing_decision.intents
        assert intents.prior_context_missing


async def test_under_strict_a_switch_without_a_summary_is_refused_before_anything_starts() -> None:
    """Nothing runs; with a summary the same response goes through, under the same `dispatch_id`."""
    async with running_sidecar_for_tests(rules=STRICT) as sidecar:
        await a_turn(sidecar, "ask_shop")
        bound = await sidecar.bind()

        refused = await failure_of(sidecar.dispatch(bound, "ask_rewards", dispatch_id="d-9"))
        assert (refused.reason, sidecar.runner.started) == ("PRIOR_CONTEXT_MISSING", ["shop"])

        reply = await sidecar.dispatch(bound, "ask_rewards", dispatch_id="d-9", prior_context="Wants milk.")
        assert reply.outcomes == ["SUCCEEDED"]


@requirement("PC2-D-16", "PC2-D-64")
@pytest.mark.parametrize(
    ("in_request", "in_arguments", "declared", "failsafe"),
    [(0, 0, 0, False), (1, 0, 1, False), (2, 0, 2, True), (0, 3, 3, True), (3, 2, 3, True)],
)
async def test_more_intents_declared_than_called_asks_for_another_try(
    in_request: int, in_arguments: int, declared: int, failsafe: bool
) -> None:
    """One call; declared in the request or in its arguments, the larger counts."""
    arguments = f'{{"request": "x", "intent_count": {in_arguments}}}' if in_arguments else '{"request": "x"}'
    async with running_sidecar_for_tests() as sidecar:
        reply = await sidecar.dispatch(
            await sidecar.bind(), a_call("call-1", "ask_shop", arguments), declared_intent_count=in_request
        )

        intents = reply.result.intents
        assert (intents.declared, intents.emitted, intents.failsafe) == (declared, 1, failsafe)
        assert reply.outcomes == ["SUCCEEDED"]


async def test_calls_of_one_sub_agent_are_one_intent() -> None:
    """Twice shop and once a tool that nobody knows: one intent."""
    async with running_sidecar_for_tests() as sidecar:
        bound: pb.BindTurnResponse = await sidecar.bind()
        assert (await sidecar.dispatch(bound, "ask_shop", "ask_shop", "ask_nobody")).result.intents.emitted == 1
