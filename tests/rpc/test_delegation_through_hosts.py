"""Delegation with everything real: sidecar, sub-agents' host, gateway socket, data service."""

from typing import Any

from subagents.dispatch.v1 import outcome_pb2 as pb
from subagents_client.runner import Answer, Run, ToolData
from subagents_errors import DelegationRefused
from tests.support.requirement import requirement
from tests.support.whole_chain import Chain, running_chain

MAY_DELEGATE = {
    "      wall_clock: 30s\n      tool_calls: 6\n": "      wall_clock: 30s\n      max_delegation_depth: 1\n"
}


@requirement("SX-15", "SX-16")
async def test_one_hosted_sub_agent_asks_another_and_uses_its_answer() -> None:
    """Shop asks rewards through its host; rewards gets none of the data that shop itself may not have."""
    refused: list[Any] = []

    async def asks(run: Run, chain: Chain) -> Answer:
        assert [each.name for each in run.delegates] == ["ask_rewards", "ask_support"]
        answer = await run.delegate("ask_rewards", {"request": "how many points are there?"})
        return Answer(f"Rewards says: {answer.narration}")

    async def looks_up(run: Run, chain: Chain) -> Answer:
        assert run.contract["ancestors"][0]["sub_agent_id"] == "shop"
        try:
            got = await run.call_tool("points_balance")
        except Exception as error:  # noqa: BLE001 - which it is, the test says
            refused.append(type(error).__name__)
            return Answer("not for you")
        return Answer(str(isinstance(got, ToolData)))

    async with running_chain(MAY_DELEGATE) as chain:
        chain.use("shop", asks)
        chain.use("rewards", looks_up)
        bound = await chain.bind()
        (outcome,) = (await chain.dispatch(bound, "ask_shop")).outcomes

        assert (outcome.outcome, outcome.narration) == (pb.OUTCOME_SUCCEEDED, "Rewards says: not for you")
        assert refused == ["ToolNotAllowed"]
        assert not chain.ccs.calls


@requirement("SX-14", "SX-17", "PC2-D-46")
async def test_with_the_cards_as_they_are_shipped_nobody_may_ask_anybody() -> None:
    """The example configuration allows no delegation."""
    reasons: list[str] = []

    async def asks(run: Run, chain: Chain) -> Answer:
        try:
            await run.delegate("ask_rewards", {"request": "points?"})
        except DelegationRefused as refused:
            reasons.append(refused.metadata["reason"])
        return Answer(f"{len(run.delegates)} others")

    async with running_chain() as chain:
        chain.use("shop", asks)
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes

        assert (reasons, outcome.narration) == (["off"], "0 others")
