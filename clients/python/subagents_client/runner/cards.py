"""The cards that the sidecar sent to a host, by digest."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subagents.runner.v1 import runner_pb2


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the sub-agent.

    Attributes:
        tool_id: id in the tool registry.
        description: description of the tool, for the model.
        arguments_schema_json: JSON schema of the arguments, as JSON text.
        data_backed: whether calls go through `Run.call_tool`. False: the host runs the tool, e.g. a `render_*` tool.
    """

    tool_id: str
    description: str
    arguments_schema_json: str
    data_backed: bool


@dataclass(frozen=True, slots=True)
class Card:
    """The content of a definition that a host needs to run the sub-agent.

    Attributes:
        prompt_prefix: first part of the prompt; the same bytes for every user of the cohort. `Run.prompt_suffix` is the
            last part.
        model: key of the model in the model registry.
        provider_model: name of the model at its provider.
        base_url: URL of an OpenAI-compatible endpoint; empty: the provider's own.
        max_output_tokens: maximum number of tokens in an answer; 0: the model's default.
        reasoning_effort: reasoning effort of the model, e.g. `low`; empty: the model's default.
        text_verbosity: verbosity of the model, e.g. `medium`; empty: the model's default.
        tools: the tools, in declared order.
        component_schemas_json: `render_*` tool to the JSON schema of its components, as JSON text.
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
    """Return the card that a message contains."""
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
    """The most recently used cards, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._cards: OrderedDict[str, Card] = OrderedDict()

    def take(self, digest: str) -> Card | None:
        """Return the card with this digest and mark it as used; None if the cache does not have it."""
        if digest in self._cards:
            self._cards.move_to_end(digest)
        return self._cards.get(digest)

    def hold(self, digest: str, card: Card) -> None:
        """Store a card; drop the least recently used cards if there are too many."""
        self._cards[digest] = card
        self._cards.move_to_end(digest)
        while len(self._cards) > self._most:
            self._cards.popitem(last=False)
