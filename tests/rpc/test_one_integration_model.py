"""A sub-agent is a native one, called as a tool: there is no second way to join, and `role` opens none."""

from typing import Any

import pytest

from sidecar.core.definitions.cards.card import Role
from subagents.dispatch.v1 import dispatch_pb2
from subagents.runner.v1 import runner_pb2
from tests.support.builders import a_card
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement

CALLABLE_BY_AN_ORCHESTRATOR = {
    "BindTurn",
    "Dispatch",
    "DispatchUnary",
    "ResumeDispatch",
    "CancelCall",
    "CloseChild",
    "EndTurn",
}


async def surface_and_answer(role: Role) -> tuple[Any, ...]:
    """Bind and call shop with that role; return its tool, what ran, how it ended and what it said."""
    async with running_sidecar_for_tests(cards=[a_card("shop", role=role)]) as sidecar:
        bound = await sidecar.bind()
        (tool,) = bound.surface.sub_agent_tools
        outcome = (await sidecar.dispatch(bound, "ask_shop")).of("call-1")
        return (
            (tool.name, tool.description, tool.arguments_schema_json),
            sidecar.runner.started,
            outcome.outcome,
            outcome.narration,
        )


@requirement("PC1-D-42")
@pytest.mark.parametrize("role", [role for role in Role if role is not Role.NATIVE])
async def test_a_wrapper_is_a_tool_like_any_other(role: Role) -> None:
    """Same tool, same runner, same answer as a native one: being called a wrapper gives a vertical nothing."""
    assert await surface_and_answer(role) == await surface_and_answer(Role.NATIVE)


@requirement("PC1-D-42")
def test_nothing_can_be_registered_or_proxied_beside_the_definitions() -> None:
    """All that may be called: turns, dispatches and children; a host is only ever asked by the sidecar."""
    dispatching = dispatch_pb2.DESCRIPTOR.services_by_name["DispatchService"]
    running = runner_pb2.DESCRIPTOR.services_by_name["SubAgentRunnerService"]

    assert {method.name for method in dispatching.methods} == CALLABLE_BY_AN_ORCHESTRATOR | {"Session"}
    carried = dispatch_pb2.SessionOperation.DESCRIPTOR.oneofs_by_name["request"].fields
    asked = {method.name: method.input_type for method in dispatching.methods}
    assert {field.message_type for field in carried} < set(asked.values())
    assert {method.name for method in running.methods} == {"Run", "Describe"}
