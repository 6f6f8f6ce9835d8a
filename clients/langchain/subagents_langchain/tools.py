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
"""Brings the outcome of one call; may raise `SubagentsError`."""
Answer = tuple[str | ToolMessage, dict[str, Any]]


class AskSubAgent(BaseTool):
    """Asks one sub-agent. Made by `tools_of`; `SidecarMiddleware` makes those that share the dispatch of a response.

    Answers with the text for the model, and the outcome as artifact (`outcome_in` reads it); never raises for a
    sub-agent that failed. May be called from any thread and any event loop, as long as the loop of the bound turn runs.
    """

    _send: Ask = PrivateAttr()
    _loop: asyncio.AbstractEventLoop = PrivateAttr()

    @classmethod
    def asking(cls, send: Ask, tool: SubAgentTool | None, name: str = "") -> "AskSubAgent":
        """Return the tool; its description is the definition's, character for character. Source: PC2-FR-2.

        Args:
            send: takes the calls.
            tool: as on the surface; None: it is not on the surface, and the sidecar refuses its calls.
            name: of a tool that is not on the surface.
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
    """Return the sub-agents of a bound turn as tools, in the order of the surface. To be called in the turn's loop.

    Calls that the agent runs in parallel share one dispatch, see `Coalescer`.

    Args:
        turn: gives the surface and carries the calls.
        context: what the sub-agents inherit in every dispatch.
    """
    coalescer = Coalescer(turn, context)
    return [AskSubAgent.asking(coalescer.ask, tool) for tool in turn.surface.sub_agent_tools]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
