"""One turn of a consumer-agent: bind, let the model call, dispatch, let it compose, end."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from examples.consumer_agent.history import Message, Role, ToolUse, broken_rules
from examples.consumer_agent.model import Model, Reply, ToolOffer
from subagents_client import (
    BoundTurn,
    DispatchContext,
    DispatchEvent,
    DispatchResult,
    SidecarClient,
    Snapshot,
    SubagentsError,
    Surface,
    ToolCall,
    TurnEnd,
    TurnRequest,
)

ABANDON: Final = timedelta(seconds=1)
"""Longest time for ending a turn that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """The authenticated user of a conversation."""

    principal: str
    episode_id: str
    locale: str | None = None
    location: str | None = None


@dataclass(slots=True)
class TurnStory:
    """What happened in one turn.

    Attributes:
        said: the user's message.
        surface: what could be called.
        replies: each response of the model; the last one is the answer.
        results: what each response with calls came to.
        end: how the turn ended.
        broken_rules: what a model provider would refuse the history for; empty if it is valid.
    """

    said: str
    surface: Surface
    end: TurnEnd
    replies: list[Reply] = field(default_factory=list)
    results: list[DispatchResult] = field(default_factory=list)
    broken_rules: list[str] = field(default_factory=list)

    @property
    def answer(self) -> str:
        """What the user read at the end."""
        return self.replies[-1].text


class Audience(Protocol):
    """Who watches a turn while it happens, e.g. the screen. Slow watching slows the turn."""

    async def bound(self, surface: Surface) -> None:
        """The turn is bound."""

    async def calling(self, reply: Reply, surface: Surface) -> None:
        """The model has emitted calls; they are dispatched next."""

    async def began(self, snapshot: Snapshot) -> None:
        """The sidecar has taken the calls; those that it will not run have settled already."""

    async def happened(self, event: DispatchEvent) -> None:
        """Something happened in the running dispatch."""

    def reported(self, words: str, sub_agent_ids: Sequence[str]) -> None:
        """Sub-agents are on their way; for orchestrators that give no `happened`."""

    def briefed(self, prior_context: str) -> None:
        """Newly asked sub-agents were told this; for orchestrators that do not know it when the model calls."""

    async def settled(self, result: DispatchResult) -> None:
        """Every call of the dispatch has its outcome."""

    async def answered(self, reply: Reply) -> None:
        """The model has composed the answer."""


class Conversation(Protocol):
    """What holds one conversation."""

    async def turn(self, said: str) -> TurnStory:
        """Carry out one turn.

        Raises:
            SubagentsError: the turn could not be bound or ended.
            Exception: whatever a model's provider raises.
        """


class ConsumerAgent:
    """Holds one conversation.

    Args:
        client: the sidecar beside this process.
        model: decides and composes.
        user: the authenticated user.
        audience: who watches.
    """

    def __init__(self, client: SidecarClient, model: Model, user: User, audience: Audience) -> None:
        self.history: list[Message] = []
        self._client = client
        self._model = model
        self._user = user
        self._audience = audience

    async def turn(self, said: str) -> TurnStory:
        """Carry out one turn.

        Raises:
            SubagentsError: the turn could not be bound or ended.
        """
        turn = await self._client.bind_turn(
            TurnRequest(
                principal=self._user.principal,
                episode_id=self._user.episode_id,
                locale=self._user.locale,
                location=self._user.location,
            )
        )
        await self._audience.bound(turn.surface)
        self.history.append(Message(Role.USER, said))
        try:
            replies, results = await self._converse(turn, said)
        except asyncio.CancelledError:
            await _abandon(turn)
            raise
        end = await turn.end(narration=replies[-1].text)
        return TurnStory(said, turn.surface, end, replies, results, list(broken_rules(self.history)))

    async def _converse(self, turn: BoundTurn, said: str) -> tuple[list[Reply], list[DispatchResult]]:
        tools = offers(turn.surface)
        replies: list[Reply] = []
        results: list[DispatchResult] = []
        while True:
            may_call = len(results) < turn.surface.max_dispatches_per_turn
            reply = await self._model.respond(turn.surface.prompt.text, tools if may_call else (), self.history)
            replies.append(reply)
            self.history.append(Message(Role.ASSISTANT, reply.text, reply.calls))
            if not reply.calls:
                await self._audience.answered(reply)
                return replies, results
            await self._audience.calling(reply, turn.surface)
            result = await self._dispatch(turn, reply, said)
            results.append(result)
            self.history += [Message(Role.TOOL, text, call_id=call_id) for call_id, text in result.tool_messages()]
            await self._audience.settled(result)

    async def _dispatch(self, turn: BoundTurn, reply: Reply, said: str) -> DispatchResult:
        """Return one outcome for each call, whatever happens."""
        calls = [ToolCall(use.call_id, use.name, _json(use)) for use in reply.calls]
        context = DispatchContext(prior_context=reply.prior_context, task_prompt=said)
        try:
            async with turn.dispatch(calls, context) as stream:
                untold = True
                async for event in stream:
                    if untold and stream.snapshot is not None:
                        untold = False
                        await self._audience.began(stream.snapshot)
                    await self._audience.happened(event)
                return await stream.result()
        except SubagentsError as error:
            return turn.unanswered(calls, error)


async def _abandon(turn: BoundTurn) -> None:
    """End a turn that has no answer, since an open one keeps the sidecar from draining until its lifetime is over."""
    with suppress(SubagentsError):
        await turn.end(timeout=ABANDON)


def offers(surface: Surface) -> Sequence[ToolOffer]:
    """Return the sub-agents of a surface as tools for a model."""
    return [
        ToolOffer(tool.name, tool.description, json.loads(tool.arguments_schema_json))
        for tool in surface.sub_agent_tools
    ]


def _json(use: ToolUse) -> str:
    return json.dumps(dict(use.arguments), ensure_ascii=False)
