"""Writes the `prior_context`: a summary of the conversation for sub-agents that the previous turn did not call."""

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from subagents_client import Surface, ToolCall
from subagents_langchain.costs import Costs, Purpose
from subagents_langchain.history import narration_of_earlier_turns, start_of_turn
from subagents_langchain.turn import trimmed

ARGUMENT: Final = "prior_context"
LONGEST: Final = 16 * 1024
INSTRUCTION: Final = (
    "Do not answer the user yet. For this message you ask assistants that were not asked last: {names}. Following your"
    " instructions, write the prior_context for them and nothing else. Message of the user:\n{said}"
)
LOG: Final = logging.getLogger(__name__)


def newly_asked(surface: Surface, calls: Sequence[ToolCall]) -> Sequence[str]:
    """Return the called sub-agents that need a summary: the episode's last dispatching turn did not call them.

    A call that already has a `prior_context` needs no summary.

    Source: PC1-FR-8a, TN-12.
    """
    previous = surface.previous_sub_agents
    if not previous.known or not previous.sub_agent_ids:
        return []
    without_context = [call for call in calls if not _has_prior_context(call)]
    called = [tool.sub_agent_id for call in without_context if (tool := surface.tool(call.tool_name))]
    return [one for one in dict.fromkeys(called) if one not in previous.sub_agent_ids]


def _has_prior_context(call: ToolCall) -> bool:
    try:
        arguments = json.loads(call.arguments_json)
    except (ValueError, RecursionError):
        return False
    given = arguments.get(ARGUMENT) if isinstance(arguments, dict) else None
    return isinstance(given, str) and bool(given.strip())


async def write_prior_context(
    model: BaseChatModel,
    prompt: str,
    messages: Sequence[AnyMessage],
    names: Sequence[str],
    costs: Costs,
    timeout: timedelta,
) -> str:
    """Return a summary of the earlier turns; empty if there are none or the model fails, and the turn continues.

    The model gets the orchestrator's prompt, which describes a `prior_context`, and the narration of the earlier turns.
    Its tokens are kept out of LangGraph's message stream.

    Source: PC1-FR-8b, PC1-FR-8c, PC1-NFR-7c.
    """
    start = start_of_turn(messages)
    earlier = narration_of_earlier_turns(messages)[: -len(messages[start:])]
    if not earlier:
        return ""
    said = str(messages[start].text)
    request = HumanMessage(INSTRUCTION.format(names=", ".join(names), said=said))
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            reply = await model.ainvoke([SystemMessage(prompt), *earlier, request], config={"tags": ["nostream"]})
    except Exception as error:  # noqa: BLE001  a provider may raise anything; sub-agents work without the summary
        LOG.warning("no prior_context: the model that writes it failed with %s", type(error).__name__)
        return ""
    costs.add(Purpose.PRIOR_CONTEXT, reply)
    return trimmed(str(reply.text).strip(), LONGEST)
