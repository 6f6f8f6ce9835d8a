"""The whole chain with this runtime as the sub-agents' host."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.language_models import BaseChatModel

from plugins.runner_langchain.tests.support.scripted_model import Step, scripted
from sidecar_runner_langchain import AgentRuntime, langchain_host
from subagents_client.runner import Answer, Card, Run
from tests.support.whole_chain import Chain, Doing, Edits, running_chain


def by_persona(models: Mapping[str, BaseChatModel]) -> Any:
    """Return a maker of models: the first whose key is in the card's prompt, as in `You are the shopping assistant`."""

    def make(card: Card) -> BaseChatModel:
        return next(model for words, model in models.items() if words in card.prompt_prefix)

    return make


def run_by(runtime: AgentRuntime) -> Doing:
    """Return what lets a slot of the chain be run by a runtime."""

    async def doing(run: Run, chain: Chain) -> Answer:
        return await runtime.run(run)

    return doing


@asynccontextmanager
async def running_shop(*steps: Step, edits: Edits | None = None, **runtime: Any) -> AsyncIterator[tuple[Chain, Any]]:
    """Run everything, with the slot `shop` run by this runtime; give the chain and the model that follows the steps."""
    model = scripted(*steps)
    async with running_chain(edits) as chain:
        chain.use("shop", run_by(AgentRuntime(models=lambda card: model, **runtime)))
        yield chain, model


__all__ = ["by_persona", "langchain_host", "run_by", "running_shop"]
