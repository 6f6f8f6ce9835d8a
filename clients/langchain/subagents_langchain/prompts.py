"""What each call of the orchestrator's model takes: size of its prompt, whether its beginning repeats, cached tokens.

Providers cache the beginning of a prompt: tools, then the surface's prefix. It is cheap only while it stays the same.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

PREFIXES: Final = 1000
"""Beginnings that are remembered; providers forget them within minutes to hours."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of the orchestrator's model, the routing call too.

    Attributes:
        model: as the provider named it; empty if it did not.
        prompt_bytes: UTF-8 bytes of tools, system prompt and messages.
        prefix_bytes: of these, tools and the surface's prefix: what a provider can cache for all users of a cohort.
        prefix_digest: of the same bytes; changes with any tool, description, schema or block.
        prefix_repeated: this process has sent the same beginning before.
        input_tokens, output_tokens: as the provider reports; None if it reports none.
        cached_tokens: of the input tokens, those that it read from its cache; None if it does not say.
    """

    model: str
    prompt_bytes: int
    prefix_bytes: int
    prefix_digest: str
    prefix_repeated: bool
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a call of the model is given.

    Attributes:
        tools: as offered.
        system: the whole system prompt.
        prefix: the part of it at its beginning that a provider can cache.
        messages: the history.
    """

    tools: Sequence[BaseTool | dict[str, Any]]
    system: str
    prefix: str
    messages: Sequence[AnyMessage]


class PromptMeter:
    """Measures the calls of one orchestrator, over all turns.

    Args:
        listener: told of every call, e.g. to count it; should not raise.
    """

    def __init__(self, listener: Callable[[ModelCall], None]) -> None:
        self._listener = listener
        self._seen: OrderedDict[str, None] = OrderedDict()

    def measure(self, prompt: Prompt, response: AIMessage) -> None:
        """Tell the listener of a call that was answered."""
        tools = json.dumps([convert_to_openai_tool(tool) for tool in prompt.tools], ensure_ascii=False)
        beginning = (tools + prompt.prefix).encode()
        digest = sha256(beginning).hexdigest()
        usage = response.usage_metadata
        cached = usage.get("input_token_details", {}).get("cache_read") if usage else None
        call = ModelCall(
            model=str(response.response_metadata.get("model_name") or ""),
            prompt_bytes=len(tools.encode()) + len(prompt.system.encode()) + sum(map(_size, prompt.messages)),
            prefix_bytes=len(beginning),
            prefix_digest=digest,
            prefix_repeated=digest in self._seen,
            input_tokens=usage["input_tokens"] if usage else None,
            output_tokens=usage["output_tokens"] if usage else None,
            cached_tokens=cached,
        )
        self._seen[digest] = None
        self._seen.move_to_end(digest)
        if len(self._seen) > PREFIXES:
            self._seen.popitem(last=False)
        self._listener(call)


def _size(message: AnyMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    arguments = (json.dumps(call["args"], ensure_ascii=False) for call in calls)
    return len(str(message.text).encode()) + sum(len(each.encode()) for each in arguments)
