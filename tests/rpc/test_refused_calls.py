"""What the orchestrator's model is told of a call that was not carried out: enough to make a better one."""

import json
from typing import Any

from subagents_client import DispatchResult, SidecarClient, ToolCall, TurnRequest
from tests.support.builders import a_card
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.requests import a_call
from tests.support.requirement import requirement

ORDER = {
    "type": "object",
    "properties": {"order": {"type": "string", "pattern": "^[0-9]+$"}},
    "required": ["order"],
    "additionalProperties": False,
}
CANARY = "anna@example.org"


async def told(sidecar: SidecarForTests, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Return what the SDK answers each call with."""
    sent = [ToolCall(f"call-{place}", name, json.dumps(given)) for place, (name, given) in enumerate(calls)]
    async with SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET) as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e", turn_id="turn-told"))
        result: DispatchResult = await turn.dispatch_and_wait(sent)
        await turn.end()
    return [text for _, text in result.tool_messages()]


async def test_unfit_arguments_are_answered_with_path_problem_and_allowed_values() -> None:
    """One line for each call; the value that was given is in none of them."""
    cards = [a_card("shop"), a_card("support", arguments=ORDER)]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        answers = await told(
            sidecar,
            ("ask_shop", {"request": "x", "intent_count": CANARY}),
            ("ask_shop", {"request": "x", CANARY: 1}),
            ("ask_support", {"order": CANARY}),
        )

    unfit = "Not asked: the arguments do not fit the tool's schema. Wrong: "
    assert answers == [
        f"{unfit}`intent_count` must be of type integer.",
        f"{unfit}the arguments may only hold intent_count, prior_context, request.",
        f'{unfit}`order` must match "^[0-9]+$".',
    ]


async def test_an_unknown_tool_is_answered_with_the_tools_that_there_are() -> None:
    """Those of the surface, not of the configuration; the name that was called is not repeated."""
    async with running_sidecar_for_tests(cards=[a_card("shop"), a_card("rewards")]) as sidecar:
        (answer,) = await told(sidecar, (f"ask_{CANARY}", {"request": "x"}))

    known = "There are: ask_shop, ask_rewards."
    assert answer == f"Not asked: there is no such assistant in this conversation turn. {known}"


async def test_a_call_over_the_cap_is_answered_with_the_cap() -> None:
    """Cap 1, two calls."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        _, dropped = await told(sidecar, ("ask_shop", {"request": "x"}), ("ask_rewards", {"request": "y"}))

    assert dropped.endswith("Ask again if it is still needed. At most 1 run at a time.")


async def test_a_refusal_read_from_the_record_says_the_same() -> None:
    """Another sidecar on the same record is listened to, as after a stop."""
    async with running_sidecar_for_tests() as first:
        bound = await first.bind()
        told_first = await first.dispatch(bound, a_call("call-1", "ask_shop", "{}"), dispatch_id="d-1")
        async with running_sidecar_for_tests(store=first.store) as second:
            told_then = await second.resume(bound, "d-1")

    assert "`request` is missing" in told_first.of("call-1").status.message
    assert told_then.of("call-1").status.message == told_first.of("call-1").status.message


@requirement("PC1-FR-8a", "PC2-FR-5b")
async def test_the_model_may_hand_over_context_with_a_call() -> None:
    """`prior_context` reaches the one sub-agent it is for, and counts as the summary that a switch needs."""
    async with running_sidecar_for_tests(rules={"strict_prior_context": True}) as sidecar:
        before = await sidecar.bind()
        await sidecar.dispatch(before, "ask_shop")
        await sidecar.end(before)
        bound = await sidecar.bind()
        given = json.dumps({"request": "Where is it?", "prior_context": "Order 17, ordered on Monday."})

        reply = await sidecar.dispatch(bound, a_call("c-1", "ask_support", given), a_call("c-2", "ask_shop"))

        told_support, told_shop = (sidecar.runner.request_of(slot) for slot in ("support", "shop"))
        assert told_support.context.prior_context == "Order 17, ordered on Monday."
        assert json.loads(told_support.contract_json)["parent"]["goal_summary"] == "Order 17, ordered on Monday."
        assert told_shop.context.prior_context == ""
        assert (reply.result.intents.switched, reply.result.intents.prior_context_missing) == (True, False)


async def test_what_is_for_the_sidecar_is_kept_from_a_sub_agent_that_does_not_declare_it() -> None:
    """A card with a closed schema of its own: its tool takes both, and its sub-agent gets what it declared."""
    async with running_sidecar_for_tests(cards=[a_card("support", arguments=ORDER)]) as sidecar:
        bound = await sidecar.bind()
        (tool,) = bound.surface.sub_agent_tools
        given = '{"order": "17", "intent_count": 2, "prior_context": "Ordered on Monday."}'

        reply = await sidecar.dispatch(bound, a_call("c-1", "ask_support", given))

        request = sidecar.runner.request_of("support")
        assert list(json.loads(tool.arguments_schema_json)["properties"]) == ["intent_count", "order", "prior_context"]
        assert json.loads(request.arguments_json) == {"order": "17"}
        assert request.context.prior_context == "Ordered on Monday."
        assert (reply.outcomes, reply.result.intents.declared) == (["SUCCEEDED"], 2)
