"""What a consumer-agent needs of a model. Any provider's client fits behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from examples.consumer_agent.history import Message, ToolUse


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool as the model sees it: exactly what the surface says.

    Attributes:
        name: e.g. `ask_shop`.
        description: the definition's, character for character.
        schema: JSON schema of the arguments.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the model.

    Attributes:
        text: with `calls` a preamble for the user, without them the answer.
        calls: in the order the model emits them.
        prior_context: what assistants that were not asked in the last turn need to know of it; may be empty.
    """

    text: str
    calls: Sequence[ToolUse] = ()
    prior_context: str = ""


class Model(Protocol):
    """A model that can call tools.

    Attributes:
        name: shown to people.
    """

    @property
    def name(self) -> str:
        """What it is."""

    async def respond(self, prompt: str, tools: Sequence[ToolOffer], history: Sequence[Message]) -> Reply:
        """Return tool calls with a preamble, or the answer.

        Args:
            prompt: the system prompt of this turn.
            tools: what may be called in this turn, and nothing else.
            history: the conversation; ends with the user's message, or with answers to tool calls.
        """
