"""A chat model behind LangChain's real interface that follows a script, and refuses what a provider refuses."""

import itertools
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field
from typing_extensions import override

from subagents_langchain import outcome_in, validate_history

Messages = Sequence[BaseMessage]
Step = AIMessage | Callable[[Messages], AIMessage | Awaitable[AIMessage]]
"""One response, or how it is made of the messages."""

NUMBERS = itertools.count(1)


class ScriptedModel(BaseChatModel):
    """Gives one step after the other.

    Attributes:
        steps: the script; what was given is taken from it.
        shown: the messages of every call.
        offered: the tools of every call, as they go to a provider.
        tags: LangChain's tags of every call.
    """

    steps: list[Any]
    shown: list[list[Any]] = Field(default_factory=list)
    offered: list[list[Any]] = Field(default_factory=list)
    marked: list[list[str]] = Field(default_factory=list)

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise TypeError("an orchestrator never calls a model in a way that blocks")

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        validate_history(messages)
        self.shown.append(messages)
        self.offered.append(kwargs.get("tools", []))
        self.marked.append(run_manager.tags if run_manager else [])
        step: Step = self.steps.pop(0)
        made = step if isinstance(step, AIMessage) else step(messages)
        message = made if isinstance(made, AIMessage) else await made
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def prompts(self) -> list[str]:
        """The system prompt of every call."""
        return [str(messages[0].text) for messages in self.shown]

    def tools_offered(self, call: int = -1) -> list[str]:
        """Return the names of the tools of one call."""
        return [tool["function"]["name"] for tool in self.offered[call]]


def calling(
    *names: str, text: str = "", intents: int | None = None, model: str = "big", prior_context: str | None = None
) -> AIMessage:
    """Return a response that calls these tools, each with a request of its own and a new id."""
    optional = {"intent_count": intents, "prior_context": prior_context}
    declared = {name: value for name, value in optional.items() if value is not None}
    calls = [
        {"name": name, "args": {"request": f"about {name}", **declared}, "id": f"call-{next(NUMBERS)}"}
        for name in names
    ]
    return priced(AIMessage(text, tool_calls=calls), model)


def says(text: str, model: str = "big") -> AIMessage:
    """Return an answer."""
    return priced(AIMessage(text), model)


def priced(message: AIMessage, model: str) -> AIMessage:
    """Let a response have used 1000 tokens in and 100 out."""
    message.usage_metadata = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    message.response_metadata = {"model_name": model}
    return message


def composes(messages: Messages) -> AIMessage:
    """Answer with what the sub-agents said, and state nothing about what is missing."""
    told = [outcome_in(one) for one in messages]
    good = [one.narration for one in told if one is not None and one.answered]
    return says("Here is what I found: " + "; ".join(good) if good else "Hm.")


def states(text: str, *numbers: int, line: str = "<<stated {key}: {numbers}>>") -> Step:
    """Return a step that answers with a text and states these numbers in the way that the prompt asks for."""

    def step(messages: Messages) -> AIMessage:
        asked = re.search(r"<<stated ([0-9a-f]{8}):", str(messages[0].text))
        key = asked[1] if asked else "nothing-was-asked"
        return says(f"{text}\n{line.format(key=key, numbers=', '.join(map(str, numbers)))}")

    return step


def raises(error: BaseException) -> Step:
    """Return a step in which the provider fails."""

    def step(messages: Messages) -> AIMessage:
        raise error

    return step
