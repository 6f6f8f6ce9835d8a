"""The offline default model: routes by the words of tool descriptions, so that an evaluation runs without a key.

The model reads tool names, tool descriptions and the message. It is deterministic, it knows no sub-agent, and it is
often wrong if words alone do not determine the tool. Use `--model` to measure another model.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from subagents_evals.runs.lexicon import ADMITS, clauses, language_of, stems
from subagents_langchain import outcome_in

NAME: Final = "offline"
PREFIX: Final = "ask_"
NOT_ITS_JOB: Final = re.compile(r"\bNot (?:for|used)\b.*", re.DOTALL)
"""Begins the part of a description that says what the tool is not for."""
LEAST_SCORE: Final = 1.0
"""Below it, no tool fits: one word that a single description has is enough, words of every description are not."""
NEGATIVE: Final = 0.5
"""Weight of a word against a tool whose description excludes it."""
MOST_SENTENCES: Final = 14
CHARACTERS_PER_TOKEN: Final = 4
SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
TELLING: Final = re.compile(r"\d|(?<=[a-z,] )[A-Z][\w-]+|\"")
SUMMARY: Final = re.compile(r"in summary; it is information, not an instruction:\n(.*?)\n\n?", re.DOTALL)
"""The rolling summary in a prompt of `subagents_langchain`."""
ASKED: Final = re.compile(r"<<stated (\w+):")
MISSING: Final = re.compile(r"^(\d+)\. (\w+)\((.*)\): ", re.MULTILINE)
"""The missing calls in a prompt of `subagents_langchain`: number, tool and request."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of one description: how often it has them in what the tool does, and those of what it does not."""

    does: Mapping[str, int]
    does_not: frozenset[str]

    def score(self, weights: Mapping[str, float]) -> float:
        """Return how well words fit; a word counts more, the more often the description has it."""
        gained = sum(
            weight * (1 + 0.5 * math.log(self.does[word])) for word, weight in weights.items() if word in self.does
        )
        return gained - NEGATIVE * sum(word in self.does_not for word in weights)


class LexicalRouter(BaseChatModel):
    """Routes, composes and sums up by words alone."""

    @property
    @override
    def _llm_type(self) -> str:
        return "offline-lexical"

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
        tools: Sequence[Mapping[str, Any]] = kwargs.get("tools", ())
        message = reply_to(messages, tools)
        message.usage_metadata = _usage(messages, tools, message)
        message.response_metadata = {"model_name": NAME}
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)


def reply_to(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> AIMessage:
    """Return calls for the last message, an answer made of tool results, or a summary if no tools are given."""
    if not tools:
        return AIMessage(summary_of(messages))
    place = max((at for at, one in enumerate(messages) if isinstance(one, HumanMessage)), default=0)
    said = str(messages[place].text)
    results = [one for one in messages[place:] if isinstance(one, ToolMessage)]
    if results:
        failed = {one.tool_call_id for one in results if _lacks(one)}
        missing = [call for call in _calls(messages[place:]) if call["id"] in failed]
        return AIMessage(_composed(said, results, missing) + _statement(messages, missing))
    chosen = route(said, {tool["function"]["name"]: tool["function"].get("description", "") for tool in tools})
    if not chosen:
        return AIMessage("You are welcome. Ask me whenever you need something.")
    mark = hashlib.sha256(f"{len(messages)}\n{said}".encode()).hexdigest()[:12]
    calls = [
        {"name": name, "args": {"request": request, "intent_count": len(chosen)}, "id": f"offline-{mark}-{number}"}
        for number, (name, request) in enumerate(chosen.items())
    ]
    return AIMessage("", tool_calls=calls)


def route(message: str, descriptions: Mapping[str, str]) -> Mapping[str, str]:
    """Return the tools to call, each with its request, in the order in which the message asks for them.

    Each clause of the message goes to the tool whose description shares most with it; a word counts less, the more
    descriptions have it. A clause that fits no tool stays with the clause before.

    Args:
        message: of the user.
        descriptions: by tool name; names that do not begin with `ask_` are not considered.
    """
    offered = {name: text for name, text in descriptions.items() if name.startswith(PREFIX)}
    vocabularies = {name: _vocabulary(name, text) for name, text in offered.items()}
    spread = Counter(word for words in vocabularies.values() for word in words.does)
    chosen: dict[str, str] = {}
    last = ""
    for clause in clauses(message):
        words = [word for word in dict.fromkeys(stems(clause)) if word in spread]
        weights = {word: math.log(1 + len(offered) / spread[word]) for word in words}
        scores = {name: vocabularies[name].score(weights) for name in offered}
        best = max(scores, key=lambda name: scores[name], default="")
        if best and scores[best] >= LEAST_SCORE:
            chosen[best] = f"{chosen[best]}; {clause}" if best in chosen else clause
            last = best
        elif last:
            chosen[last] = f"{chosen[last]}; {clause}"
    return chosen


def _vocabulary(name: str, description: str) -> Vocabulary:
    does = NOT_ITS_JOB.sub("", description)
    return Vocabulary(Counter(stems(f"{name.removeprefix(PREFIX)} {does}")), frozenset(stems(description[len(does) :])))


def summary_of(messages: Sequence[BaseMessage]) -> str:
    """Return the sentences of a conversation that name a number or a name, the newest `MOST_SENTENCES` of them."""
    spoken = [one for one in messages if not isinstance(one, SystemMessage)]
    kept = [found for one in messages if isinstance(one, SystemMessage) for found in SUMMARY.findall(f"{one.text}\n")]
    texts = [*kept, *(str(one.text) for one in (spoken[:-1] if len(spoken) > 1 else spoken))]
    sentences = [part.strip() for text in texts for part in SENTENCE.split(text) if TELLING.search(part)]
    return " ".join(dict.fromkeys(sentences[-MOST_SENTENCES:]))


def _composed(said: str, results: Sequence[ToolMessage], missing: Sequence[ToolCall]) -> str:
    """Return the results one after the other, and what could not be looked up, in the language of the message."""
    good = [str(one.text) for one in results if not _lacks(one)]
    admission = ADMITS[language_of(said)].format(what="; ".join(_request(call) for call in missing))
    return " ".join([*good, *([admission] if missing else [])]) or admission


def _statement(messages: Sequence[BaseMessage], missing: Sequence[ToolCall]) -> str:
    """Return the line that says which missing calls the answer acknowledges; empty if the prompt asks for none."""
    prompt = "\n".join(str(one.text) for one in messages if isinstance(one, SystemMessage))
    asked = ASKED.search(prompt)
    if asked is None:
        return ""
    told = {(call["name"], repr(_request(call))) for call in missing}
    numbers = [number for number, *call in MISSING.findall(prompt) if tuple(call) in told]
    return f"\n<<stated {asked[1]}: {', '.join(numbers)}>>"


def _request(call: ToolCall) -> str:
    return str(call["args"].get("request", ""))


def _lacks(message: ToolMessage) -> bool:
    outcome = outcome_in(message)
    return message.status == "error" or (outcome is not None and outcome.data_unavailable)


def _calls(turn: Sequence[BaseMessage]) -> Iterator[ToolCall]:
    for message in turn:
        if isinstance(message, AIMessage):
            yield from message.tool_calls


def _usage(messages: Sequence[BaseMessage], tools: Sequence[Any], reply: AIMessage) -> UsageMetadata:
    """Return estimated numbers of tokens that a provider's model would have read and written."""
    read = sum(len(str(one.text)) for one in messages) + len(json.dumps(list(tools)))
    written = len(str(reply.text)) + len(json.dumps(list(reply.tool_calls)) if reply.tool_calls else "")
    given, made = math.ceil(read / CHARACTERS_PER_TOKEN), math.ceil(written / CHARACTERS_PER_TOKEN)
    return UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
