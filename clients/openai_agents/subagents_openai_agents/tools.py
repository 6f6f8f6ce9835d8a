"""The sub-agents of a bound turn as function tools of the OpenAI Agents SDK."""

import json
from typing import Any

from agents import Agent, FunctionTool, ModelResponse, RunContextWrapper, RunHooks
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall
from typing_extensions import override

from subagents_client import SubAgentTool, ToolCall
from subagents_client.coalescing import Coalescer


class SubAgents:
    """The sub-agents of one turn, as tools for one run of an agent.

    Args:
        coalescer: the coalescer of the turn; it has the outcomes and results.

    Attributes:
        tools: argument of `Agent(tools=...)`, in the order of the surface. A tool returns a failed call as an answer
            and does not raise an exception.
        hooks: argument of `Runner.run(hooks=...)`. The hooks announce the calls of each response. The dispatch then has
            all calls in emission order, even if guardrails and approvals delay some of them. If you use hooks of your
            own, call `expect` in their `on_llm_end`.
    """

    def __init__(self, coalescer: Coalescer) -> None:
        self._coalescer = coalescer
        self.tools = [_tool(tool, coalescer) for tool in coalescer.turn.surface.sub_agent_tools]
        self.hooks: RunHooks[Any] = _Announcing(self)

    def expect(self, response: ModelResponse) -> None:
        """Announce the sub-agent calls of a response before the SDK runs them."""
        offered = {tool.name for tool in self.tools}
        calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
        self._coalescer.expect(call.call_id for call in calls if call.name in offered)


class _Announcing(RunHooks[Any]):
    def __init__(self, sub_agents: SubAgents) -> None:
        self._sub_agents = sub_agents

    @override
    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        self._sub_agents.expect(response)


def _tool(tool: SubAgentTool, coalescer: Coalescer) -> FunctionTool:
    async def invoke(context: ToolContext[Any], arguments_json: str) -> str:
        outcome = await coalescer.ask(ToolCall(context.tool_call_id, tool.name, arguments_json))
        return outcome.tool_message()

    return FunctionTool(
        name=tool.name,
        description=tool.description,  # unchanged from the definition
        params_json_schema=json.loads(tool.arguments_schema_json),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # strict mode would rewrite the definition's schema
    )
