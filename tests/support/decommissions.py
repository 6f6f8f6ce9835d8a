"""Decommissions through the RPC, in few words.

async with an_operated_sidecar(*CARDS) as bench:
    await rolled_back(bench)
    await begin(bench)
    gone(bench, deprecated=True)
    await taken(bench, pb.CLEANUP_STEP_ENTRY)
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from sidecar.core.definitions.cards.card import BlockCategory, Card, Catalogue, PromptBlock, ToolEntry
from sidecar.core.identifiers import BlockId, Digest, ToolId
from sidecar.core.rollout.states import LifecycleState
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.builders import a_catalogue
from tests.support.operators import OperatedSidecar, gated

WORD: Final = "looked at in commit 1f3a"
STEPS: Final = tuple(number for number in pb.CleanupStep.values() if number)
OWN_BLOCK, SHARED_BLOCK = (
    PromptBlock(BlockId(name), BlockCategory.PERSONA, "Text.", None, "shop", f"prompts/components/shop/{name}.yaml")
    for name in ("persona-shop", "tone")
)
OWN_TOOL, SHARED_TOOL = (ToolEntry(ToolId(name), "Does it.") for name in ("find", "pay"))


def shop(**fields: Any) -> Card:
    """Return the card that goes: a block and a tool of its own, and one each that it shares."""
    return replace(gated("shop", **fields), blocks=(OWN_BLOCK, SHARED_BLOCK), tools=(OWN_TOOL, SHARED_TOOL))


def rewards() -> Card:
    """Return the card that stays."""
    return replace(gated("rewards"), blocks=(SHARED_BLOCK,), tools=(SHARED_TOOL,))


def configuration(*cards: Card, names: Sequence[str] = ("rewards",), blocks: str = "", tools: str = "") -> Catalogue:
    """Return a configuration whose orchestrator names some slots; blocks and tools that nobody uses may lie about."""
    made = a_catalogue(*cards, sub_agents=names)
    spare = {ToolId(name): ToolEntry(ToolId(name), "Does it.") for name in tools.split()}
    return replace(made, blocks=made.blocks | {BlockId(name) for name in blocks.split()}, tools={**made.tools, **spare})


async def loaded(bench: OperatedSidecar, catalogue: Catalogue) -> None:
    """Let the sidecar have another configuration."""
    bench.sidecar.definitions.load(catalogue)
    await bench.rollout.definition_watch.look()


async def rolled_back(bench: OperatedSidecar) -> Digest:
    """Put `shop` into rollback; return its digest."""
    facts = bench.facts(LifecycleState.ROLLBACK)
    await bench.put(facts)
    return facts.digest


async def begin(bench: OperatedSidecar, **fields: Any) -> lifecycle_pb2.StepResult:
    """Begin."""
    return await bench.step("BeginDecommission", **fields)


async def take(bench: OperatedSidecar, step: int, **fields: Any) -> lifecycle_pb2.StepResult:
    """Take a step; with what belongs to it unless told otherwise."""
    return await bench.step("TakeDecommissionStep", **(fields_of(step) | fields))


def fields_of(step: int) -> dict[str, Any]:
    """Return what belongs to a step."""
    given: dict[str, Any] = {"step": step}
    if step == pb.CLEANUP_STEP_MODULES:
        given["code"] = pb.CODE_STATUS_GONE
    if step in {pb.CLEANUP_STEP_MODULES, pb.CLEANUP_STEP_EVALS_AND_TOOLS}:
        given["confirmed"] = WORD
    return given


async def decide(bench: OperatedSidecar, matter: int, choice: int, **fields: Any) -> lifecycle_pb2.StepResult:
    """Decide."""
    return await bench.step("DecideDecommission", subject=matter, choice=choice, **fields)


async def listed(bench: OperatedSidecar, *, finished: bool = False) -> list[pb.DecommissionStatus]:
    """Return the decommissions."""
    request = pb.ListDecommissionsRequest(include_finished=finished)
    answer = await bench.lifecycle.ListDecommissions(request, timeout=10, metadata=bench.role("viewer"))
    return list(answer.decommissions)


async def ended(bench: OperatedSidecar) -> None:
    """Let the configuration have nothing of `shop` any more, keep its evals and tools, and take every step left."""
    await loaded(bench, configuration(rewards(), tools="find pay", blocks="tone"))
    for matter in (pb.CLEANUP_SUBJECT_EVALS, pb.CLEANUP_SUBJECT_TOOLS):
        await decide(bench, matter, pb.CLEANUP_CHOICE_RETAIN)
    for step in STEPS:
        await take(bench, step)
