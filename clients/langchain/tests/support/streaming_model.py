"""A scripted model that streams: its text in pieces of a few characters, as text or as blocks."""

import json
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from typing_extensions import override

from clients.langchain.tests.support.scripted_model import ScriptedModel


class StreamingModel(ScriptedModel):
    """Streams each step.

    Attributes:
        piece: characters of a piece.
        blocks: text comes as content blocks, as some providers send it.
    """

    piece: int = 3
    blocks: bool = False

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        message: Any = (await self._agenerate(messages, stop, None, **kwargs)).generations[0].message
        text = str(message.text)
        for start in range(0, len(text), self.piece):
            part = text[start : start + self.piece]
            content: Any = [{"type": "text", "text": part, "index": 0}] if self.blocks else part
            yield ChatGenerationChunk(message=AIMessageChunk(content=content))
        calls = [
            tool_call_chunk(name=call["name"], args=json_of(call["args"]), id=call["id"], index=place)
            for place, call in enumerate(message.tool_calls, 1)
        ]
        last = AIMessageChunk(
            content=[] if self.blocks else "", tool_call_chunks=calls, usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
        )  # fmt: skip
        yield ChatGenerationChunk(message=last)


def json_of(arguments: dict[str, Any]) -> str:
    """Return arguments as a provider sends them."""
    return json.dumps(arguments)
