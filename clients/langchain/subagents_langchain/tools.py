"""The sub-agents of a surface as LangChain tools."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr
from typing_extensions import override

from subagents_client import (
    BoundTurn,
    CallOutcome,
    DispatchContext,
    SubagentsError,
    SubAgentTool,
    ToolCall,
    failed_call,
)
from subagents_client.coalescing import Coalescer
from subagents_client.turn import NO_CONTEXT
from subagents_langchain.calls import answer_to
from subagents_langchain.outcomes.artifacts import artifact_of

Ask = Callable[[ToolCall], Awaitable[CallOutcome]]
"""Sends one call and returns its outcome; may raise `SubagentsError`."""
Answer = tuple[str | ToolMessage, dict[str, Any]]


class AskSubAgent(BaseTool):
    """A LangChain tool that calls one sub-agent. `tools_of` and `SidecarMiddleware` create it.

    It returns the text for the model, with the outcome as artifact, which `outcome_in` reads. A failed call is an
    answer, not an exception. The tool can be called from any thread and any event loop while the event loop of the
    bound turn runs.
    """

    _send: Ask = PrivateAttr()
    _loop: asyncio.AbstractEventLoop = PrivateAttr()

    @classmethod
    def asking(cls, send: Ask, tool: SubAgentTool | None, name: str = "") -> "AskSubAgent":
        """Return a tool with the description of the definition, unchanged. Source: PC2-FR-2.

        Args:
            send: sends the calls of the tool.
            tool: the tool on the surface; None: the surface has no such tool, and the sidecar refuses its calls.
            name: name of a tool that is not on the surface; ignored if `tool` is given.
        """
        made = cls(
            name=tool.name if tool else name,
            description=tool.description if tool else "",
            args_schema=json.loads(tool.arguments_schema_json) if tool else {"type": "object", "properties": {}},
            response_format="content_and_artifact",
        )
        made._send, made._loop = send, asyncio.get_running_loop()
        return made

    @override
    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[Any, dict[str, Any]]:
        # Two positional arguments, so that no name in a definition's schema can collide with one of LangChain's.
        return (json.dumps(tool_input, ensure_ascii=False), tool_call_id), {}

    @override
    def _run(self, arguments_json: str, call_id: str | None) -> Answer:
        if _running_loop() is self._loop:
            raise RuntimeError(
                f"{self.name}: call ainvoke in the event loop of the turn; invoke would block it for ever"
            )
        return asyncio.run_coroutine_threadsafe(self._ask(arguments_json, call_id), self._loop).result()

    @override
    async def _arun(self, arguments_json: str, call_id: str | None) -> Answer:
        asking: Coroutine[Any, Any, Answer] = self._ask(arguments_json, call_id)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self._loop))

    async def _ask(self, arguments_json: str, call_id: str | None) -> Answer:
        call = ToolCall(call_id or f"call-{uuid4().hex}", self.name, arguments_json)
        try:
            outcome = await self._send(call)
        except SubagentsError:
            outcome = failed_call(call)
        # Only a message can say that the call failed; text is what LangChain gives for arguments without a call id.
        said = outcome.tool_message() if call_id is None else answer_to(call_id, self.name, outcome)
        return said, artifact_of(outcome)


def tools_of(turn: BoundTurn, context: DispatchContext = NO_CONTEXT) -> list[BaseTool]:
    """Return the sub-agents of a bound turn as LangChain tools, in the order of the surface.

    Call this function in the event loop of the turn. Calls that the agent runs in parallel share one dispatch, see
    `Coalescer`.

    Args:
        turn: the bound turn that has the surface and sends the calls.
        context: the input that all sub-agents of every dispatch share.
    """
    coalescer = Coalescer(turn, context)
    return [AskSubAgent.asking(coalescer.ask, tool) for tool in turn.surface.sub_agent_tools]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
