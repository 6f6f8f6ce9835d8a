"""Agents that are kept: one for each card, the same for every user."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from json import dumps
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langgraph.pregel import Pregel

from sidecar_runner_langchain.attempt import current_run
from sidecar_runner_langchain.card_tools import LocalTool, asking, tools_of
from sidecar_runner_langchain.models import ModelMaker
from subagents_client.runner import Card, Delegate


@dynamic_prompt
def prompt_of_the_run(request: ModelRequest[Any]) -> str:
    """Return the prompt: the cohort's prefix first, byte for byte, so that the provider's cache works; then the suffix.

    Source: PC1-D-18, PC1-D-20, PC1-D-22.
    """
    run = current_run()
    return run.card.prompt_prefix + run.prompt_suffix


def agent_of(
    card: Card, models: ModelMaker, local: Mapping[str, LocalTool], delegates: Sequence[Delegate] = ()
) -> Pregel[Any, Any, Any, Any]:
    """Make the agent of a card; takes up to a second, most of it imports of the provider.

    Args:
        card: the definition.
        models: makes its model.
        local: functions of the host's own tools, by tool id.
        delegates: other sub-agents it may ask.

    Raises:
        CardNotRunnable: it cannot be made.
    """
    tools = (*tools_of(card, local), *asking(delegates))
    return create_agent(models(card), list(tools), middleware=[prompt_of_the_run])


def key_of(card: Card, delegates: Sequence[Delegate] = ()) -> str:
    """Return the cache key of an agent: a digest of its card and of its delegates."""
    known = (asdict(card), [asdict(each) for each in delegates])
    return sha256(dumps(known, sort_keys=True).encode()).hexdigest()


class Agents:
    """The agents used last. Each is made once, in a thread, however many runs ask for it at the same time.

    Args:
        models: makes the model of a card.
        local: functions of the host's own tools, by tool id.
        most: agents kept.
    """

    def __init__(self, models: ModelMaker, local: Mapping[str, LocalTool], most: int) -> None:
        self._models = models
        self._local = local
        self._most = most
        self._made: OrderedDict[str, asyncio.Task[Pregel[Any, Any, Any, Any]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    async def agent_for(self, card: Card, delegates: Sequence[Delegate] = ()) -> Pregel[Any, Any, Any, Any]:
        """Return the agent of a card, with a tool for each sub-agent that it may ask.

        Raises:
            CardNotRunnable: it cannot be made; the next run tries again.
        """
        key = key_of(card, delegates)
        making = self._made.get(key)
        if making is None:
            making = asyncio.create_task(asyncio.to_thread(agent_of, card, self._models, self._local, delegates))
            making.add_done_callback(partial(self._forget_if_failed, key))
            self._made[key] = making
            if len(self._made) > self._most:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        # A run that is cancelled meanwhile must not take the agent from the others that wait for it.
        return await asyncio.shield(making)

    def _forget_if_failed(self, key: str, making: asyncio.Task[Pregel[Any, Any, Any, Any]]) -> None:
        if (making.cancelled() or making.exception()) and self._made.get(key) is making:
            del self._made[key]
