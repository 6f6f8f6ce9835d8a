"""A model provider with a Responses API on loopback: gives scripted outputs, and keeps what it was sent."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Provider:
    """The running provider.

    Attributes:
        base_url: for a client.
        requests: the body of every request.
    """

    outputs: list[dict[str, Any]]
    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        self.requests.append(json.loads(await reader.readexactly(length)))
        body = json.dumps(self._response()).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    def _response(self) -> dict[str, Any]:
        return {
            "id": f"resp_{next(self._numbers)}",
            "object": "response",
            "created_at": 0,
            "model": "small",
            "status": "completed",
            "output": [self.outputs.pop(0)],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }


def said(text: str) -> dict[str, Any]:
    """Return the output of an answer."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def called(name: str, call_id: str) -> dict[str, Any]:
    """Return the output of a tool call."""
    arguments = json.dumps({"request": "x"})
    return {
        "type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name,
        "arguments": arguments, "status": "completed",
    }  # fmt: skip


@asynccontextmanager
async def running_provider(outputs: Sequence[dict[str, Any]]) -> AsyncIterator[Provider]:
    """Serve these outputs, one per request."""
    provider = Provider(list(outputs))
    server = await asyncio.start_server(provider.answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        provider.base_url = f"http://{host}:{port}/v1"
        yield provider
