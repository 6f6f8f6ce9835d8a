"""Definitions that a host was sent, by the digest the sidecar gave for each."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subagents.runner.v1 import runner_pb2


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the sub-agent.

    Attributes:
        tool_id: id in the tool registry.
        description: for the model.
        arguments_schema_json: JSON schema of the arguments, as JSON text.
        data_backed: calls go through `Run.call_tool`; else the host runs it itself, e.g. `render_*`.
    """

    tool_id: str
    description: str
    arguments_schema_json: str
    data_backed: bool


@dataclass(frozen=True, slots=True)
class Card:
    """A definition, as far as a host needs it. Field for field `subagents.runner.v1.CardContent`.

    Attributes:
        prompt_prefix: the same bytes for every user of the cohort; `Run.prompt_suffix` follows it.
        model: registry key of the model.
        provider_model: the model where it is served.
        base_url: of an OpenAI-compatible endpoint; empty: the provider's own.
        max_output_tokens: most tokens in an answer; 0: the model's default.
        reasoning_effort: empty: the model's default.
        text_verbosity: empty: the model's default.
        tools: in declared order.
        component_schemas_json: JSON schema of what each `render_*` tool makes, by tool name.
    """

    prompt_prefix: str
    model: str
    provider_model: str
    base_url: str
    max_output_tokens: int
    reasoning_effort: str
    text_verbosity: str
    tools: Sequence[Tool]
    component_schemas_json: Mapping[str, str]


def card_of(content: runner_pb2.CardContent) -> Card:
    """Return a card."""
    return Card(
        prompt_prefix=content.prompt_prefix,
        model=content.model,
        provider_model=content.provider_model,
        base_url=content.base_url,
        max_output_tokens=content.max_output_tokens,
        reasoning_effort=content.reasoning_effort,
        text_verbosity=content.text_verbosity,
        tools=[Tool(one.tool_id, one.description, one.arguments_schema_json, one.data_backed) for one in content.tools],
        component_schemas_json=dict(content.component_schemas_json),
    )


class CardCache:
    """The cards used last, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._cards: OrderedDict[str, Card] = OrderedDict()

    def take(self, digest: str) -> Card | None:
        """Return the card with that digest and keep it longest, or None if it is not held."""
        if digest in self._cards:
            self._cards.move_to_end(digest)
        return self._cards.get(digest)

    def hold(self, digest: str, card: Card) -> None:
        """Keep a card; the one unused for longest goes if there are too many."""
        self._cards[digest] = card
        self._cards.move_to_end(digest)
        while len(self._cards) > self._most:
            self._cards.popitem(last=False)
