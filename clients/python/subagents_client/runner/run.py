"""What a sub-agent's function is given: the request, what it inherits, and ways to report."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client.runner.answers import DataUnavailable, Delegate, Delegated, OwnTurn, ToolData
from subagents_client.runner.cards import Card
from subagents_client.runner.gateway import Gateways
from subagents_client.runner.outbox import Outbox
from subagents_client.runner.questions import continuation_of


@dataclass(frozen=True, slots=True)
class Context:
    """What a sub-agent inherits. Source: PC2-FR-5.

    Attributes:
        principal: on whose behalf; opaque. Data calls carry it by themselves, never pass it on.
        user_id: the same for chat.
        episode_id: the conversation.
        turn_id: the turn.
        locale: BCP 47 tag; None: explicitly unknown.
        location: in words; None: explicitly unknown.
        prior_context: the orchestrator's summary of what came before; empty if there is none.
        task_prompt: the user's message of this turn, if the client gave it.
    """

    principal: str = field(repr=False)
    user_id: str = field(repr=False)
    episode_id: str
    turn_id: str
    locale: str | None
    location: str | None
    prior_context: str
    task_prompt: str


def context_of(message: runner_pb2.InheritedContext) -> Context:
    """Return what a sub-agent inherits."""
    return Context(
        principal=message.principal,
        user_id=message.user_id,
        episode_id=message.episode_id,
        turn_id=message.turn_id,
        locale=message.locale if message.HasField("locale") else None,
        location=message.location if message.HasField("location") else None,
        prior_context=message.prior_context,
        task_prompt=message.task_prompt,
    )


class Run:
    """One attempt of one sub-agent.

    The function is cancelled (`CancelledError`) when the sidecar cancels the attempt or its time is up; it should let
    that pass. Reports after that go nowhere.

    Attributes:
        sub_agent_id: the slot that was asked.
        child_id: the delegated execution; the same over all its attempts.
        attempt_id: this attempt; by it a sub-agent with side effects can recognise that it ran before.
        attempt: 1 for the first.
        definition_id: the definition that fills the slot.
        digest: content digest of the definition.
        arguments: what the orchestrator's model asked; fits the card's schema.
        context: what is inherited.
        prompt_suffix: last part of the prompt: date, location, user id, locale.
        contract: the delegation contract.
        delegates: other sub-agents that may be asked; empty unless the contract allows it.
        continuation: the answer to what an earlier run asked back, and its state; None: the run begins new work.
    """

    def __init__(
        self,
        message: runner_pb2.RunRequest,
        card: Card | None,
        gateways: Gateways,
        time_left: Callable[[], float],
    ) -> None:
        self.sub_agent_id = message.sub_agent_id
        self.child_id = message.child_id
        self.attempt_id = message.attempt_id
        self.attempt = message.attempt
        self.definition_id = message.definition_id
        self.digest = message.digest
        self.arguments: Mapping[str, Any] = _object(message.arguments_json)
        self.context = context_of(message.context)
        self.prompt_suffix = message.prompt_suffix
        self.contract: Mapping[str, Any] = _object(message.contract_json)
        self.delegates: Sequence[Delegate] = [
            Delegate(each.name, each.description, each.arguments_schema_json) for each in message.delegates
        ]
        self.continuation = continuation_of(message)
        self.outbox = Outbox()
        self._card = card
        self._gateways = gateways
        self._gateway_target = message.gateway_target
        self._grant = message.grant
        self._time_left = time_left

    @property
    def request(self) -> str:
        """What is asked, in words; empty if the card's arguments have no `request`."""
        return str(self.arguments.get("request", ""))

    @property
    def time_left(self) -> float:
        """Seconds until the attempt is over."""
        return max(0.0, self._time_left())

    @property
    def card(self) -> Card:
        """The definition.

        Raises:
            LookupError: the host was not told that this function needs it.
        """
        if self._card is None:
            raise LookupError(f"no card here: register {self.sub_agent_id!r} with needs_card=True")
        return self._card

    async def status(self, kind: str, **attributes: str) -> None:
        """Report progress; waits while the reader is far behind.

        Args:
            kind: a type of the vocabulary such as `searching_offers`; others are dropped by the sidecar.
            attributes: values for the words, which the client makes; at most 16, each at most 256 characters.
        """
        event = runner_pb2.StatusEvent(type=kind, attributes=attributes)
        await self.outbox.put(runner_pb2.RunResponse(status=event))

    async def narrate(self, text: str) -> None:
        """Send a piece of the answer's text; what the function returns comes after it."""
        await self.outbox.put(runner_pb2.RunResponse(narration=text))

    def render(self, name: str, *, tool_input: Any, component_data: Any) -> None:
        """Report what a `render_*` tool was given and made; both must be JSON values.

        Args:
            name: of the tool, as the card names it.
            tool_input: ids, titles, analytics tags.
            component_data: must fit the card's schema for `name`.

        Raises:
            ValueError: not JSON (`NaN` is not either), or too many components.
            TypeError: not JSON.
        """
        self.outbox.put_component(
            runner_pb2.RenderedComponent(
                name=name, tool_input_json=_json(tool_input), component_data_json=_json(component_data)
            )
        )

    def usage(self, *, input_tokens: int, output_tokens: int, cached_input_tokens: int | None = None) -> None:
        """Report the tokens used so far by this attempt: running totals.

        Args:
            input_tokens: read by the model, those from the provider's cache included.
            output_tokens: written by the model.
            cached_input_tokens: of the input tokens, those from the provider's cache; None if it does not say.
        """
        self.outbox.put_usage(
            runner_pb2.UsageReport(
                input_tokens=input_tokens, output_tokens=output_tokens, cached_input_tokens=cached_input_tokens
            )
        )

    async def call_tool(self, tool_id: str, arguments: Mapping[str, Any] | None = None) -> ToolData | DataUnavailable:
        """Call a data-backed tool through the tool gateway.

        Args:
            tool_id: one of the card's tools.
            arguments: must fit the tool's schema; at most 64 KiB of JSON.

        Returns:
            The data, or that there is none.

        Raises:
            ToolNotAllowed, ToolBudgetExhausted, InvalidRequest, MessageTooLarge: the call was not carried out.
            GrantSpent: the attempt is over.
            DependencyUnavailable: the gateway cannot be reached; if it leaves the function, the failure is transient.
        """
        request = tools_pb2.CallToolRequest(tool_id=tool_id, arguments_json=_json(arguments or {}))
        return await self._gateways.call(self._gateway_target, self._grant, request, self.time_left)

    async def delegate(self, tool_name: str, arguments: Mapping[str, Any]) -> Delegated:
        """Have another sub-agent of the turn do a part of the work, and wait for what it comes to.

        It has no more time, budget, tools or depth than is left here, and is stopped when this call is cancelled.

        Args:
            tool_name: one of `delegates`, e.g. `ask_rewards`.
            arguments: must fit its schema; at most 64 KiB of JSON.

        Raises:
            DelegationRefused: `metadata["reason"]` says why: `off`, `depth`, `cycle`, `not_bound`, `busy`, `budget`.
            InvalidRequest: the arguments do not fit.
            GrantSpent: the attempt is over.
            DependencyUnavailable: the record or the gateway cannot be reached. The sub-agent was not called, or it is
                not known whether it was.

        Source: SX-14 .. SX-17.
        """
        request = tools_pb2.DelegateRequest(tool_name=tool_name, arguments_json=_json(arguments))
        return await self._gateways.delegate(self._gateway_target, self._grant, request, self.time_left)

    async def read_own_turns(self, max_turns: int = 0) -> Sequence[OwnTurn]:
        """Return what this sub-agent was asked and answered in earlier turns of this session, oldest first.

        Args:
            max_turns: the newest ones; 0: as many as the operator allows.

        Raises:
            GrantSpent: the attempt is over.
            DependencyUnavailable: the history or the gateway cannot be reached; a sub-agent may well go on without.

        Source: PC1-FR-7.
        """
        return await self._gateways.own_turns(self._gateway_target, self._grant, max_turns, self.time_left)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
