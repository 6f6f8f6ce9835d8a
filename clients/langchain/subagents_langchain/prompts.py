"""Measures each call of the orchestrator's model: size of the prompt, whether its beginning repeats, cached tokens.

Providers cache the beginning of a prompt: the tools, then the surface's prefix. Repeating it unchanged is cheap.
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
"""Number of beginnings that are remembered. Providers drop them from their caches after minutes to hours."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of the orchestrator's model; the routing call or an extra call.

    Attributes:
        model: name of the model in the provider's response; empty if it has none.
        prompt_bytes: UTF-8 bytes of tools, system prompt and messages.
        prefix_bytes: UTF-8 bytes of tools and the surface's prefix, which providers can cache for a whole cohort.
        prefix_digest: SHA-256 of these bytes, 64 hex digits; changes with any tool, description, schema or block.
        prefix_repeated: whether this process has sent a prompt with this beginning before.
        input_tokens: input tokens that the provider reported; None if it reported none.
        output_tokens: output tokens that the provider reported; None if it reported none.
        cached_tokens: the part of `input_tokens` from the provider's cache; None if unknown.
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
    """The input of one call of the orchestrator's model.

    Attributes:
        tools: the offered tools.
        system: the whole system prompt.
        prefix: the beginning of the system prompt that a provider can cache.
        messages: the history.
    """

    tools: Sequence[BaseTool | dict[str, Any]]
    system: str
    prefix: str
    messages: Sequence[AnyMessage]


class PromptMeter:
    """Measures the calls of one orchestrator, over all turns.

    Args:
        listener: called with every measured call, e.g. to count it; should not raise.
    """

    def __init__(self, listener: Callable[[ModelCall], None]) -> None:
        self._listener = listener
        self._seen: OrderedDict[str, None] = OrderedDict()

    def measure(self, prompt: Prompt, response: AIMessage) -> None:
        """Measure a call and pass the result to the listener."""
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
