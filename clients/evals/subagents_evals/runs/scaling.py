"""Measures how routing changes with the number of sub-agents, by adding descriptions to the routing call.

No sub-agent runs, so the added sub-agents need no definitions, and one sidecar serves every step. The prompt, the
argument schema and the configuration's own sub-agents are those of the real surface, bound at a real sidecar.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from subagents_client import Surface, TurnRequest
from subagents_evals.inputs.cases import Case
from subagents_evals.inputs.configuration import Configuration
from subagents_evals.inputs.strict_yaml import read_as
from subagents_evals.measures.metrics import Share, share_of
from subagents_evals.runs.evaluation_run import Measuring, ModelFailed, NoCasesSelected, Prepared, model_of
from subagents_evals.runs.stage import started_environment

OTHERS: Final = Path(__file__).with_name("other_sub_agents.yaml")
STEPS: Final = (3, 5, 8, 10, 15, 20, 25, 30)
SEED: Final = 3
PREFIX: Final = "ask_"


class Other(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An added sub-agent, which no case calls."""

    id: str
    description: str


class Others(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The added sub-agents, in the order in which they are added."""

    sub_agents: tuple[Other, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """The results with one number of sub-agents on the surface.

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


async def scaled(
    prepared: Prepared, options: Measuring, steps: Sequence[int] = STEPS, told: Callable[[int], None] = lambda _: None
) -> Sequence[Point]:
    """Return one point for each number of sub-agents that is not below the surface's own.

    Args:
        prepared: inputs of the run, from `prepare`.
        options: has the model, and how many calls are made at a time.
        steps: numbers of sub-agents.
        told: of each call that is over, with the number of all calls.

    Raises:
        StageFailed: the sidecar did not start.
        ModelFailed: the model cannot be made, or one of its calls failed.
        NothingChosen: no number is within what can be measured.
        UnusableFile: the list of other sub-agents cannot be used.
    """
    others, _ = read_as(OTHERS, Others)
    least = len(prepared.configuration.slots)
    most = least + len(others.sub_agents)
    within = [step for step in sorted(set(steps)) if least <= step <= most]
    if not within:
        raise NoCasesSelected(f"--steps: {least} sub-agents are in the configuration, and {most} can be measured")
    model = model_of(options.model)
    async with started_environment(prepared.configuration, prepared.golden.suite) as stage:
        turn = await stage.client.bind_turn(TurnRequest(principal="scale", episode_id="scale"))
        await turn.end()
    cases = [case for case in prepared.cases if not case.compacted]
    room = asyncio.Semaphore(options.how.concurrent)

    async def one(bound: Runnable[Any, AIMessage], case: Case) -> _Call:
        async with room:
            usage = UsageMetadataCallbackHandler()
            begun = time.monotonic()
            reply = await bound.ainvoke(_messages(turn.surface, case), config={"callbacks": [usage]})
            seconds = time.monotonic() - begun
        told(len(within) * len(cases))
        called = {call["name"].removeprefix(PREFIX) for call in reply.tool_calls}
        return _Call(called == case.wanted, seconds, usage)

    points = []
    for step in within:
        bound = model.bind_tools(_tools(turn.surface, others.sub_agents[: step - least]))
        try:
            calls = await asyncio.gather(*(one(bound, case) for case in cases))
        except Exception as error:  # noqa: BLE001  a provider may raise anything
            raise ModelFailed(f"{options.model} with {step} sub-agents: {type(error).__name__}: {error}") from None
        points.append(_point(step, calls, prepared.configuration))
    return points


@dataclass(frozen=True, slots=True)
class _Call:
    right: bool
    seconds: float
    usage: UsageMetadataCallbackHandler


def _point(step: int, calls: Sequence[_Call], configuration: Configuration) -> Point:
    count = len(calls)
    given = sum(used["input_tokens"] for one in calls for used in one.usage.usage_metadata.values())
    costs = [configuration.cost(one.usage.usage_metadata) for one in calls]
    known = [one for one in costs if one is not None]
    return Point(
        step,
        share_of(sum(one.right for one in calls), count),
        given / count,
        sum(known) / count if len(known) == count else None,
        sum(one.seconds for one in calls) / count,
    )


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
