"""A hosted sub-agent asks another one."""

import json
from pathlib import Path

from clients.python.tests.support.gateway_host import FakeGateway, gateway
from clients.python.tests.support.sidecar_side import hosted, request
from subagents.dispatch.v1 import outcome_pb2
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client.outcomes import Component, Outcome
from subagents_client.runner import Delegate, Delegated, Run, RunnerHost
from subagents_errors import DelegationRefused

ASKABLE = runner_pb2.DelegateTool(name="ask_rewards", description="Knows points.", arguments_schema_json="{}")


async def test_another_sub_agent_is_asked_through_the_gateway_with_the_grant(tmp_path: Path) -> None:
    """Whom it may ask stands in the run; the answer comes back as a value with its components."""
    host, given = RunnerHost(), list[object]()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        given.extend(run.delegates)
        given.append(await run.delegate("ask_rewards", {"request": "how many points?"}))
        return ""

    component = outcome_pb2.Component(name="render_points", tool_input_json="{}", component_data_json='{"points":7}')
    fake = FakeGateway(
        delegated=tools_pb2.DelegateResponse(
            outcome=outcome_pb2.OUTCOME_DEGRADED,
            narration="Seven.",
            components=[component],
            data_unavailable=True,
            message="Some data is missing.",
        )
    )
    async with gateway(fake, tmp_path) as target, hosted(host, tmp_path) as here:
        await here.run(request(gateway_target=target, delegates=[ASKABLE]))

    made = Component("render_points", "{}", '{"points":7}')
    assert given == [
        Delegate("ask_rewards", "Knows points.", "{}"),
        Delegated(Outcome.DEGRADED, "Seven.", [made], data_unavailable=True, message="Some data is missing."),
    ]
    assert (fake.grants, fake.delegations[0].tool_name) == (["grant-1"], "ask_rewards")
    assert json.loads(fake.delegations[0].arguments_json) == {"request": "how many points?"}


async def test_a_refused_delegation_says_why(tmp_path: Path) -> None:
    """The shared exception, with the reason in its metadata; the sub-agent goes on."""
    host, reasons = RunnerHost(), list[str]()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        try:
            await run.delegate("ask_rewards", {})
        except DelegationRefused as refused:
            reasons.append(refused.metadata["reason"])
        return "on my own"

    fake = FakeGateway(refusal=DelegationRefused("no", metadata={"reason": "busy"}))
    async with gateway(fake, tmp_path) as target, hosted(host, tmp_path) as here:
        responses = await here.run(request(gateway_target=target))

    assert (reasons, responses[0].narration) == (["busy"], "on my own")
