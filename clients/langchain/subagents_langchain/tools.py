"""The sub-agents of a surface as LangChain tools."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any
from uuid import uuid4

from langchain_core.tools import BaseTool
from pydantic import PrivateAttr
from typing_extensions import override

from subagents_client import BoundTurn, CallOutcome, DispatchContext, SubagentsError, SubAgentTool, ToolCall
from subagents_client.turn import NO_CONTEXT


class AskSubAgent(BaseTool):
    """Asks one sub-agent. Each call is a dispatch of its own; `SidecarMiddleware` sends those of a response as one.

    Answers with the text for the model, and the `CallOutcome` as artifact; never raises for a sub-agent that failed.
    May be called from any thread and any event loop, as long as the loop of the bound turn runs.
    """

    _turn: BoundTurn = PrivateAttr()
    _context: DispatchContext = PrivateAttr()
    _loop: asyncio.AbstractEventLoop = PrivateAttr()

    @classmethod
    def of(cls, tool: SubAgentTool, turn: BoundTurn, context: DispatchContext = NO_CONTEXT) -> "AskSubAgent":
        """Return the tool; its description is the definition's, character for character. Source: PC2-FR-2."""
        made = cls(
            name=tool.name,
            description=tool.description,
            args_schema=json.loads(tool.arguments_schema_json),
            response_format="content_and_artifact",
        )
        made._turn, made._context, made._loop = turn, context, asyncio.get_running_loop()
        return made

    @override
    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[Any, dict[str, Any]]:
        # Two positional arguments, so that no name in a definition's schema can collide with one of LangChain's.
        return (json.dumps(tool_input, ensure_ascii=False), tool_call_id or f"call-{uuid4().hex}"), {}

    @override
    def _run(self, arguments_json: str, call_id: str) -> tuple[str, CallOutcome]:
        if _running_loop() is self._loop:
            raise RuntimeError(
                f"{self.name}: call ainvoke in the event loop of the turn; invoke would block it for ever"
            )
        return asyncio.run_coroutine_threadsafe(self._ask(arguments_json, call_id), self._loop).result()

    @override
    async def _arun(self, arguments_json: str, call_id: str) -> tuple[str, CallOutcome]:
        asking: Coroutine[Any, Any, tuple[str, CallOutcome]] = self._ask(arguments_json, call_id)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self._loop))

    async def _ask(self, arguments_json: str, call_id: str) -> tuple[str, CallOutcome]:
        call = ToolCall(call_id, self.name, arguments_json)
        try:
            result = await self._turn.dispatch_and_wait([call], self._context)
        except SubagentsError as error:
            result = self._turn.unanswered([call], error)
        outcome = result.outcomes[0]
        return outcome.tool_message(), outcome


def tools_of(turn: BoundTurn, context: DispatchContext = NO_CONTEXT) -> list[BaseTool]:
    """Return the sub-agents of a bound turn as tools, in the order of the surface. To be called in the turn's loop.

    Args:
        turn: gives the surface and carries the calls.
        context: what the sub-agents inherit in every call.
    """
    return [AskSubAgent.of(tool, turn, context) for tool in turn.surface.sub_agent_tools]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
