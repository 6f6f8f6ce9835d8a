"""`Run`, the argument of a sub-agent's function: the request, its context, and methods to report and to call tools."""

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
    """The data of the turn that a sub-agent inherits. Source: PC2-FR-5.

    Attributes:
        principal: id of the user on whose behalf the turn runs; opaque. The sidecar adds it to data calls; do not pass
            it as an argument.
        user_id: id of the user; in chat the same as `principal`.
        episode_id: id of the conversation.
        turn_id: id of the turn.
        locale: the user's locale as a BCP 47 tag; None: unknown.
        location: where the user is, in words; None: unknown.
        prior_context: the orchestrator's summary of the earlier conversation; empty if there is none.
        task_prompt: the user's message of this turn; empty if the client did not send it.
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
    """Return the context that a message contains."""
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
    """One attempt to run a sub-agent.

    The host cancels the function (`CancelledError`) when the sidecar cancels the attempt or its time is up. The
    function should not suppress the exception; later reports are dropped.

    Attributes:
        sub_agent_id: the slot that was called.
        child_id: id of the child, the execution of the call; the same in all its attempts.
        attempt_id: id of this attempt. A sub-agent with side effects can store it to recognise a repeated run.
        attempt: number of this attempt, from 1.
        definition_id: id of the definition that fills the slot.
        digest: hash of the definition and of everything that it refers to.
        arguments: the arguments of the call, written by the orchestrator's model; valid for the card's schema.
        context: the data of the turn that the sub-agent inherits.
        prompt_suffix: last part of the sub-agent's prompt: date, location, user id, locale.
        contract: deadline, budgets and permissions of the child.
        delegates: other sub-agents that this one may call with `delegate`; empty if the contract forbids delegation.
        continuation: the question of an earlier run, its answer and the state of that run; None: new work.
        outbox: the reports that wait to be sent; for the host.
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
            Delegate(tool.name, tool.description, tool.arguments_schema_json) for tool in message.delegates
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
        """The request in words: the argument `request`; empty if the call has no such argument."""
        return str(self.arguments.get("request", ""))

    @property
    def time_left(self) -> float:
        """Seconds until the deadline of the attempt; 0 if it has passed."""
        return max(0.0, self._time_left())

    @property
    def card(self) -> Card:
        """The card: the content of the definition.

        Raises:
            LookupError: the function was registered without `needs_card=True`, and the host does not have the card.
        """
        if self._card is None:
            raise LookupError(f"no card here: register {self.sub_agent_id!r} with needs_card=True")
        return self._card

    async def status(self, kind: str, **attributes: str) -> None:
        """Report progress. Waits while many reports are still unsent.

        Args:
            kind: a type of the configured vocabulary, such as `searching_offers`; the sidecar drops unknown types.
            attributes: values for the text that the client composes; at most 16, each at most 256 characters.
        """
        event = runner_pb2.StatusEvent(type=kind, attributes=attributes)
        await self.outbox.put(runner_pb2.RunResponse(status=event))

    async def narrate(self, text: str) -> None:
        """Send a piece of the answer's text. The text that the function returns is appended to all pieces."""
        await self.outbox.put(runner_pb2.RunResponse(narration=text))

    def render(self, name: str, *, tool_input: Any, component_data: Any) -> None:
        """Report a component: a call of a `render_*` tool and its result.

        Args:
            name: name of the tool in the card.
            tool_input: arguments of the tool, e.g. ids, titles and analytics tags; a JSON value.
            component_data: the component; a JSON value that is valid for the card's schema of `name`.

        Raises:
            ValueError: a value is not JSON, e.g. contains `NaN`, or there are too many components.
            TypeError: a value is not JSON.
        """
        self.outbox.put_component(
            runner_pb2.RenderedComponent(
                name=name, tool_input_json=_json(tool_input), component_data_json=_json(component_data)
            )
        )

    def usage(self, *, input_tokens: int, output_tokens: int, cached_input_tokens: int | None = None) -> None:
        """Report the tokens that this attempt has used so far, as totals over all model calls.

        Args:
            input_tokens: tokens that the model read, including those from the provider's cache.
            output_tokens: tokens that the model wrote.
            cached_input_tokens: the part of `input_tokens` from the provider's cache; None: unknown.
        """
        self.outbox.put_usage(
            runner_pb2.UsageReport(
                input_tokens=input_tokens, output_tokens=output_tokens, cached_input_tokens=cached_input_tokens
            )
        )

    async def call_tool(self, tool_id: str, arguments: Mapping[str, Any] | None = None) -> ToolData | DataUnavailable:
        """Call a data-backed tool through the tool gateway.

        Args:
            tool_id: id of one of the card's tools.
            arguments: arguments of the tool, valid for its schema; at most 64 KiB as JSON; None: no arguments.

        Returns:
            The data, or `DataUnavailable` if there is none.

        Raises:
            ToolNotAllowed, ToolBudgetExhausted, InvalidRequest, MessageTooLarge: the call was refused.
            GrantSpent: the attempt is over.
            DependencyUnavailable: the gateway cannot be reached. If the function does not catch this exception, the
                attempt fails with a transient failure, and the sidecar may start another attempt.
        """
        request = tools_pb2.CallToolRequest(tool_id=tool_id, arguments_json=_json(arguments or {}))
        return await self._gateways.call(self._gateway_target, self._grant, request, self.time_left)

    async def delegate(self, tool_name: str, arguments: Mapping[str, Any]) -> Delegated:
        """Call another sub-agent of the turn and wait for its result.

        The called sub-agent is limited to the time, budgets, tools and depth that this sub-agent has left. It is
        stopped when this method is cancelled.

        Args:
            tool_name: name of one of `delegates`, e.g. `ask_rewards`.
            arguments: arguments of the call, valid for the delegate's schema; at most 64 KiB as JSON.

        Raises:
            DelegationRefused: `metadata["reason"]` says why: `off`, `depth`, `cycle`, `not_bound`, `busy`, `budget`.
            InvalidRequest: the arguments are invalid.
            GrantSpent: the attempt is over.
            DependencyUnavailable: the record or the gateway cannot be reached. It may be unknown whether the other
                sub-agent was called.

        Source: SX-14 .. SX-17.
        """
        request = tools_pb2.DelegateRequest(tool_name=tool_name, arguments_json=_json(arguments))
        return await self._gateways.delegate(self._gateway_target, self._grant, request, self.time_left)

    async def read_own_turns(self, max_turns: int = 0) -> Sequence[OwnTurn]:
        """Return the earlier requests to this sub-agent in this episode, with its answers, oldest first.

        Args:
            max_turns: maximum number of turns, of which the newest are returned; 0: as many as the operator allows.

        Raises:
            GrantSpent: the attempt is over.
            DependencyUnavailable: the history or the gateway cannot be reached; most sub-agents can continue without.

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
