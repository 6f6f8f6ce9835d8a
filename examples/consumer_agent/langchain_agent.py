"""The example on LangChain: the reference orchestrator of `subagents_langchain` instead of a loop of its own."""

from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime
from typing_extensions import override

from examples.consumer_agent.agent import Audience, TurnStory, User
from examples.consumer_agent.langchain_model import reply_of
from examples.consumer_agent.model import Reply
from subagents_client import SidecarClient, TurnRequest
from subagents_errors import DependencyUnavailable
from subagents_langchain import ENGLISH, ActiveTurn, Orchestrator, StatusLine, TurnEvent, broken_rules

State = AgentState[Any]


class LangChainAgent:
    """Holds one conversation, as `ConsumerAgent` does.

    Args:
        client: the sidecar beside this process.
        model: routes and composes.
        summary_model: writes `prior_context`; None: `model` does.
        user: the authenticated user.
        audience: who watches.
    """

    def __init__(
        self,
        client: SidecarClient,
        model: BaseChatModel,
        summary_model: BaseChatModel | None,
        user: User,
        audience: Audience,
    ) -> None:
        self._watching = Watching(audience)
        self._orchestrator = Orchestrator(client, model, summary_model=summary_model, middleware=[self._watching])
        self._user = user
        self._audience = audience
        self._messages: list[AnyMessage] = []

    async def turn(self, said: str) -> TurnStory:
        """Carry out one turn.

        Raises:
            SubagentsError: the turn could not be bound or ended.
            Exception: whatever the model's provider raises.
        """
        user = self._user
        request = TurnRequest(
            principal=user.principal, episode_id=user.episode_id, locale=user.locale, location=user.location
        )
        answer = await self._orchestrator.answer(request, [*self._messages, HumanMessage(said)], listener=self._listen)
        self._messages = list(answer.messages)
        await self._audience.answered(Reply(answer.full_text))
        active = self._watching.active
        if active is None or active.turn is None or answer.end is None:
            raise answer.unbound_because or DependencyUnavailable(
                "the sidecar could not be told that the turn has ended"
            )
        replies = [*self._watching.replies, Reply(answer.full_text)]
        replies[0] = replace(replies[0], prior_context=active.prior_context or "")
        broken = list(broken_rules(self._messages))
        return TurnStory(said, active.turn.surface, answer.end, replies, list(answer.results), broken)

    def _listen(self, event: TurnEvent) -> None:
        if isinstance(event, StatusLine):
            self._audience.reported(event.text, event.sub_agent_ids)


class Watching(AgentMiddleware[State, ActiveTurn, Any]):
    """Tells the audience what happens in the graph. Runs inside of the sidecar's middleware, one turn at a time.

    Attributes:
        active: the present or last turn; None before the first.
        replies: its responses with calls.
    """

    def __init__(self, audience: Audience) -> None:
        super().__init__()
        self.active: ActiveTurn | None = None
        self.replies: list[Reply] = []
        self._audience = audience
        self._told = 0

    @override
    async def abefore_agent(self, state: State, runtime: Runtime[ActiveTurn]) -> None:
        """The turn is bound by now."""
        self.active, self.replies, self._told = runtime.context, [], 0
        if self.active.turn is not None:
            await self._audience.bound(self.active.turn.surface)

    @override
    async def abefore_model(self, state: State, runtime: Runtime[ActiveTurn]) -> None:
        """What was dispatched after the last response has its outcomes."""
        active = runtime.context
        for result in active.results[self._told :]:
            if not self._told and active.prior_context:
                self._audience.briefed(active.prior_context)
            self._told += 1
            await self._audience.settled(result)

    @override
    async def aafter_model(self, state: State, runtime: Runtime[ActiveTurn]) -> None:
        """A response is there, and not dispatched yet."""
        message, turn = state["messages"][-1], runtime.context.turn
        if isinstance(message, AIMessage) and message.tool_calls and turn is not None:
            reply = reply_of(message)
            reply = replace(reply, text=reply.text or ENGLISH.one_moment)
            self.replies.append(reply)
            await self._audience.calling(reply, turn.surface)
