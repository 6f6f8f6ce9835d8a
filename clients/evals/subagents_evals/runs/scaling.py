"""How routing changes with the number of sub-agents: the routing call alone, with more and more other descriptions.

No sub-agent runs here, so that the others need no definitions, and one sidecar serves every step. The prompt, the
argument schema and the configuration's own sub-agents are those of the real surface, bound at a real sidecar.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from subagents_client import Surface, TurnRequest
from subagents_evals.inputs.cases import Case
from subagents_evals.inputs.configuration import Configuration
from subagents_evals.inputs.strict_yaml import read_as
from subagents_evals.measures.metrics import Share, share_of
from subagents_evals.runs.running import Prepared
from subagents_evals.runs.stage import staged

OTHERS: Final = Path(__file__).with_name("other_sub_agents.yaml")
STEPS: Final = (3, 5, 8, 10, 15, 20, 25, 30)
SEED: Final = 3
PREFIX: Final = "ask_"


class Other(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sub-agent that no case wants."""

    id: str
    description: str


class Others(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sub-agents that are added, in this order."""

    sub_agents: tuple[Other, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured with so many sub-agents on the surface.

    Attributes:
        routing: cases whose first response called exactly the wanted sub-agents.
        input_tokens: of one routing call, on average; estimated for the offline router.
        cost: of one routing call in dollars, on average; None without a price.
        seconds: of one routing call, on average.
    """

    sub_agents: int
    routing: Share
    input_tokens: float
    cost: float | None
    seconds: float


async def scaled(prepared: Prepared, model: BaseChatModel, steps: Sequence[int] = STEPS) -> Sequence[Point]:
    """Return one point for each number of sub-agents that is not below the surface's own.

    Raises:
        StageFailed: the sidecar did not start.
        UnusableFile: the list of other sub-agents cannot be used.
        Exception: whatever the model's provider raises.
    """
    others, _ = read_as(OTHERS, Others)
    own = len(prepared.configuration.slots)
    async with staged(prepared.configuration, prepared.golden.suite) as stage:
        turn = await stage.client.bind_turn(TurnRequest(principal="scale", episode_id="scale"))
        await turn.end()
    cases = [case for case in prepared.cases if not case.compacted]
    points = []
    for step in sorted(set(steps)):
        if own <= step <= own + len(others.sub_agents):
            tools = _tools(turn.surface, others.sub_agents[: step - own])
            points.append(await _point(step, tools, turn.surface, cases, model, prepared.configuration))
    return points


async def _point(
    number: int,
    tools: Sequence[dict[str, Any]],
    surface: Surface,
    cases: Sequence[Case],
    model: BaseChatModel,
    configuration: Configuration,
) -> Point:
    bound = model.bind_tools(tools)
    usage = UsageMetadataCallbackHandler()
    right, begun = 0, time.monotonic()
    for case in cases:
        reply = await bound.ainvoke(_messages(surface, case), config={"callbacks": [usage]})
        right += {call["name"].removeprefix(PREFIX) for call in reply.tool_calls} == case.wanted
    seconds = time.monotonic() - begun
    given = sum(one["input_tokens"] for one in usage.usage_metadata.values())
    cost: float | None = 0.0
    for name, used in usage.usage_metadata.items():
        price = configuration.price(name)
        if price is None or cost is None:
            cost = None
        else:
            spent = price.input_per_million * used["input_tokens"] + price.output_per_million * used["output_tokens"]
            cost += float(spent) / 1_000_000
    count = len(cases)
    each = None if cost is None else cost / count
    return Point(number, share_of(right, count), given / count, each, seconds / count)


def _tools(surface: Surface, others: Sequence[Other]) -> Sequence[dict[str, Any]]:
    """Return the tools in a fixed shuffled order, so that the wanted ones are not always first."""
    schema = msgspec.json.decode(surface.sub_agent_tools[0].arguments_schema_json)
    described = [(one.name, one.description) for one in surface.sub_agent_tools]
    described += [(f"{PREFIX}{one.id}", one.description) for one in others]
    Random(SEED).shuffle(described)  # noqa: S311  an order, not a secret
    return [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text in described
    ]


def _messages(surface: Surface, case: Case) -> list[AnyMessage]:
    messages: list[AnyMessage] = [SystemMessage(surface.prompt.text)]
    for past in case.history:
        messages += [HumanMessage(past.user), AIMessage(past.assistant)]
    return [*messages, HumanMessage(case.message)]
