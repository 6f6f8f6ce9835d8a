"""An OpenAI-compatible endpoint over real HTTP, which keeps what it was sent and answers from a script."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.http_serving import address_of, listening


@dataclass
class OpenAiStub:
    """The endpoint.

    Attributes:
        replies: of `/chat/completions`, one after the other; a number is a status without a body worth reading.
        bodies, keys: of the requests so far.
        hangs: set to be told of a request that is kept waiting; then none is answered.
        left: set once a caller has gone away from a request that is kept waiting.
    """

    replies: list[dict[str, Any] | int]
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    hangs: asyncio.Event | None = None
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, request: Request) -> Response:
        """Answer one request."""
        self.bodies.append(json.loads(await request.body()))
        self.keys.append(request.headers.get("authorization", ""))
        if self.hangs is not None:
            self.hangs.set()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return Response(status_code=499)
        reply = self.replies[len(self.bodies) - 1]
        if isinstance(reply, int):
            return JSONResponse({"error": {"message": f"no, and here is your prompt: {self.bodies[-1]}"}}, reply)
        return JSONResponse(reply)


def message(content: str | None = None, *called: tuple[str, str], tokens: tuple[int, int] = (10, 2)) -> dict[str, Any]:
    """Return a reply: a text, or calls of tools with their arguments as the model writes them."""
    tool_calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(called)
    ]
    made = {"role": "assistant", "content": content, **({"tool_calls": tool_calls} if tool_calls else {})}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny:7b",
        "choices": [{"index": 0, "message": made, "finish_reason": "tool_calls" if tool_calls else "stop"}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


@asynccontextmanager
async def running_openai_stub(*replies: dict[str, Any] | int) -> AsyncIterator[tuple[OpenAiStub, str]]:
    """Serve on a free port of the loopback; give the endpoint and its base URL."""
    stub = OpenAiStub(list(replies))
    app = Starlette(routes=[Route("/v1/chat/completions", stub.complete, methods=["POST"])])
    config = uvicorn.Config(app, lifespan="off", log_level="warning", access_log=False, http="h11")
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]  # signals are the test runner's
    sock = listening("127.0.0.1", 0)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield stub, f"{address_of(sock)}/v1"
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, timeout=5)
