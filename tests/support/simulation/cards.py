"""A fixed pool of sub-agents with all kinds of limits, for schedules to choose from."""

from datetime import timedelta
from random import Random
from typing import Any, Final

from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS
from sidecar.core.definitions.cards.card import (
    AgentDefinition,
    BlockCategory,
    Card,
    Limits,
    ModelEntry,
    PromptBlock,
    Role,
    ToolEntry,
    ToolOperation,
)
from sidecar.core.identifiers import BlockId, Commit, DefinitionId, Digest, ModelId, Slot, ToolId

MODEL: Final = ModelEntry(ModelId("m"), "m", 1000)
COMPONENT: Final = {"type": "object", "required": ["title"], "additionalProperties": False, "properties": {"title": {}}}
PAYLOAD: Final = {"type": "object", "required": ["note"], "properties": {"note": {"type": "string"}}}
HURRIED: Final = {
    "type": "object",
    "properties": {"request": {"type": "string"}, "urgent": {"type": "boolean"}},
    "required": ["request", "urgent"],
    "additionalProperties": False,
}
"""What every other sub-agent is to be told: what fits one of them does not fit the next."""
DATA_TOOLS: Final = ("notes", "offers")
EFFECT_TOOL: Final = "booking"
IDEMPOTENT_TOOL: Final = "reserving"
OPERATIONS: Final = {EFFECT_TOOL: ToolOperation.EFFECT, IDEMPOTENT_TOOL: ToolOperation.IDEMPOTENT}
"""Of tools that change something; sub-agents of the suite `record` call them. All others read."""
LOCAL_TOOL: Final = "calculator"
TOOL_LIMIT: Final = 3.0
"""Seconds that a data call may take."""


def _tool(tool_id: str) -> ToolEntry:
    if tool_id == LOCAL_TOOL:
        return ToolEntry(ToolId(tool_id), "computes")
    return ToolEntry(
        id=ToolId(tool_id),
        description="data",
        arguments={"type": "object", "required": ["reply"]},
        connector="simulated",
        endpoint="simulated",
        domain_type=tool_id,
        enricher_id="read",
        version="1.2.0",
        echoes_nonce=tool_id == "offers",
        payload_schema=PAYLOAD,
        timeout=timedelta(seconds=TOOL_LIMIT),
        operation=OPERATIONS.get(tool_id, ToolOperation.READ),
    )


def _limits(chance: Random) -> Limits:
    return Limits(
        attempt_timeout=timedelta(seconds=round(chance.uniform(1.0, 6.0), 3)),
        max_retries=chance.choice((0, 0, 1, 2)),
        idle_timeout=chance.choice((None, None, timedelta(seconds=round(chance.uniform(0.5, 2.0), 3)))),
        wall_clock=chance.choice((None, None, timedelta(seconds=round(chance.uniform(1.5, 8.0), 3)))),
        tool_calls=chance.choice((None, None, 1, 2)),
        tokens=chance.choice((None, None, 1000)),
        close_on_completion=chance.random() < 0.7,
    )


def _card(number: int, chance: Random) -> Card:
    name = f"agent{number}"
    tools = tuple(_tool(each) for each in ("notes", "offers", LOCAL_TOOL, *OPERATIONS))
    definition = AgentDefinition(
        id=DefinitionId(name),
        description=f"answers {name}",
        role=Role.NATIVE,
        model=MODEL.id,
        tools=tuple(tool.id for tool in tools),
        ownership=(chance.choice(("basket", "profile")),) if chance.random() < 0.4 else (),
        limits=_limits(chance),
        components={"card": COMPONENT},
        allow_empty_answer=number % 3 > 0,
        success_criteria=(f"is what {name} would say",),
        arguments=HURRIED if number % 2 else DEFAULT_ARGUMENTS,
    )
    written = f" You are {name}, one of {{{{fan_out_cap}}}}. "
    voice = PromptBlock(BlockId("voice"), BlockCategory.PERSONA, written, "voice", "platform", "voice.md")
    return Card(definition, MODEL, tools, (voice,), Digest(f"sha256:{name}"), Commit("c"))


_CHANCE: Final = Random("cards")
POOL: Final = tuple(_card(number, _CHANCE) for number in range(24))


def arguments_for(card: Card, key: str) -> dict[str, Any]:
    """Return what a call says that fits the card and has that key."""
    return {"request": key, "urgent": True} if card.definition.arguments is HURRIED else {"request": key}


def prompt_of(card: Card, cap: int) -> str:
    """Return how the prompts of a card's sub-agent begin, every flag being on."""
    return f"You are {card.definition.id}, one of {cap}.\n\n"


def orchestrator(slots: tuple[Slot, ...]) -> Card:
    """Return an orchestrator that may call `slots`."""
    definition = AgentDefinition(
        id=DefinitionId("orchestrator"), description="", role=Role.ORCHESTRATOR, model=MODEL.id, sub_agents=slots
    )
    return Card(definition, MODEL, (), (), Digest("sha256:orchestrator"), Commit("c"))
