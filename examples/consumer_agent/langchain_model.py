"""The rule-based stand-in behind LangChain's real chat model interface, for `create_agent` without a network."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr
from typing_extensions import override

from examples.consumer_agent.history import Message, Role, ToolUse
from examples.consumer_agent.model import Reply, ToolOffer
from examples.consumer_agent.rule_based import REMEMBERED, RuleBasedModel, acknowledged

APOLOGY: Final = re.compile(r"\s*(About “|[^.]*\. I would rather leave it out).*", re.DOTALL)
"""Where an answer of `RuleBasedModel` stops telling facts."""
ASKED: Final = re.compile(r"<<stated (\w+):")
MISSING: Final = re.compile(r"^(\d+)\. (ask_\w+)\((.*)\): ", re.MULTILINE)
"""How the orchestrator's prompt asks which missing calls the answer acknowledges, and lists them."""


class OfflineChatModel(BaseChatModel):
    """Decides as `RuleBasedModel` does. Takes tools as LangChain binds them, and a history of LangChain messages."""

    _rules: RuleBasedModel = PrivateAttr(default_factory=RuleBasedModel)

    @property
    @override
    def _llm_type(self) -> str:
        return "offline-rule-based"

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
        tools, history = [offer(tool) for tool in kwargs.get("tools", ())], list(history_of(messages))
        reply = self._rules.reply(tools, history)
        if not reply.calls:
            reply = replace(reply, text=reply.text + statement(messages, history))
        return result(message_of(reply))

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)


class OfflineSummaryModel(BaseChatModel):
    """Writes `prior_context`: what was asked in the last turns and learned, without what could not be found out."""

    @property
    @override
    def _llm_type(self) -> str:
        return "offline-rule-based-summary"

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return result(AIMessage(" ".join(list(facts_of(messages))[-REMEMBERED:])))

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)


def statement(messages: Sequence[BaseMessage], history: Sequence[Message]) -> str:
    """Return the line that says which missing calls the answer acknowledges; empty if the prompt asks for none."""
    prompt = "".join(str(one.text) for one in messages if isinstance(one, SystemMessage))
    asked = ASKED.search(prompt)
    if asked is None:
        return ""
    known = {(call.name, repr(call.arguments.get("request", ""))) for call in acknowledged(history)}
    numbers = [number for number, *call in MISSING.findall(prompt) if tuple(call) in known]
    return f"\n<<stated {asked[1]}: {', '.join(numbers)}>>"


def result(message: AIMessage) -> ChatResult:
    """Return one response as LangChain takes it."""
    return ChatResult(generations=[ChatGeneration(message=message)])


def offer(tool: Mapping[str, Any]) -> ToolOffer:
    """Return a tool in OpenAI's form as the rules take it."""
    function = tool["function"]
    return ToolOffer(function["name"], function.get("description", ""), function.get("parameters", {}))


def reply_of(message: AIMessage, prior_context: str = "") -> Reply:
    """Return a LangChain response as the example takes it."""
    calls = [ToolUse(str(call["id"]), call["name"], call["args"]) for call in message.tool_calls]
    return Reply(str(message.text), calls, prior_context)


def message_of(reply: Reply) -> AIMessage:
    """Return a response of the rules as LangChain takes it."""
    calls = [{"name": call.name, "args": dict(call.arguments), "id": call.call_id} for call in reply.calls]
    return AIMessage(reply.text, tool_calls=calls)


def history_of(messages: Sequence[BaseMessage]) -> Iterator[Message]:
    """Yield LangChain messages as the rules take them; of the system prompt, rules have no use."""
    for message in messages:
        if isinstance(message, HumanMessage):
            yield Message(Role.USER, str(message.text))
        elif isinstance(message, AIMessage):
            reply = reply_of(message)
            yield Message(Role.ASSISTANT, reply.text, reply.calls)
        elif isinstance(message, ToolMessage):
            yield Message(Role.TOOL, str(message.text), call_id=message.tool_call_id)


def facts_of(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield what each earlier turn brought to light; the last message is the instruction to sum up."""
    asked = ""
    for message in messages[:-1]:
        if isinstance(message, HumanMessage):
            asked = str(message.text)
        elif isinstance(message, AIMessage) and (learned := APOLOGY.sub("", str(message.text))):
            yield f'The user asked "{asked}" and learned: {learned}'
