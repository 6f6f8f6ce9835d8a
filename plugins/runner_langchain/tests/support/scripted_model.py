"""A chat model behind LangChain's real interface that follows a script, and keeps what it was shown."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field
from typing_extensions import override

Messages = Sequence[BaseMessage]
Step = AIMessage | Callable[[Messages], AIMessage | Awaitable[AIMessage]]
"""One reply, or how it is made of the messages."""

NUMBERS = itertools.count(1)


class ScriptedModel(BaseChatModel):
    """Gives the step after as many as it has taken since the user spoke, so that runs at once do not mix.

    Attributes:
        steps: the script.
        shown: the messages of every call.
        offered: the tools of every call, as they go to a provider.
    """

    steps: list[Any]
    shown: list[list[Any]] = Field(default_factory=list)
    offered: list[list[Any]] = Field(default_factory=list)

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
        raise TypeError("a host never calls a model in a way that blocks")

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.shown.append(messages)
        self.offered.append(kwargs.get("tools", []))
        step: Step = self.steps[_taken(messages)]
        made = step if isinstance(step, AIMessage) else step(messages)
        message = made if isinstance(made, AIMessage) else await made
        return ChatResult(generations=[ChatGeneration(message=message.model_copy())])


def scripted(*steps: Step) -> ScriptedModel:
    """Return a model that gives these replies."""
    return ScriptedModel(steps=list(steps))


def says(text: str, tokens: tuple[int, int] | None = None) -> AIMessage:
    """Return an answer; `tokens` are those that went in and came out."""
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)} if tokens else None
    return AIMessage(text, usage_metadata=usage)


def calls(*wanted: tuple[str, dict[str, Any]], tokens: tuple[int, int] | None = None) -> AIMessage:
    """Return a response that calls tools."""
    return says("", tokens).model_copy(
        update={
            "tool_calls": [
                {"name": name, "args": arguments, "id": f"call-{next(NUMBERS)}", "type": "tool_call"}
                for name, arguments in wanted
            ]
        }
    )


def results(messages: Messages) -> list[str]:
    """Return what the tools have answered, in order."""
    return [str(message.content) for message in messages if isinstance(message, ToolMessage)]


def repeats_results(messages: Messages) -> AIMessage:
    """Answer with all that the tools have said, so that a test sees what the model saw; JSON would be refused."""
    return says(" | ".join(results(messages)).translate(str.maketrans("{}[]", "()()")))


def waits_for(event: asyncio.Event, reached: asyncio.Event) -> Callable[[Messages], Awaitable[AIMessage]]:
    """Answer only once an event is set."""

    async def step(messages: Messages) -> AIMessage:
        reached.set()
        await event.wait()
        return says("done")

    return step


def _taken(messages: Messages) -> int:
    place = max(number for number, message in enumerate(messages) if isinstance(message, HumanMessage))
    return sum(isinstance(message, AIMessage) for message in messages[place:])
