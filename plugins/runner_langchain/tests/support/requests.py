"""Attempts in this process, without a sidecar: what the runner port is asked and what it reports."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import Card, ToolEntry
from sidecar.core.identifiers import Digest, Principal, ToolId
from sidecar.policy.protocols import NarrationPart, RunnerEvent, RunRequest
from sidecar_conformance.run_requests import CARD, CONTEXT, request_for
from sidecar_conformance.runner_bench import AgentScript
from sidecar_runner_langchain import AgentRuntime
from sidecar_runner_langchain.in_process import LangChainRunner

NO_GATEWAY = "unix:/nowhere/gateway.sock"
COMPONENTS: Mapping[str, Any] = {
    "render_offers": {"type": "object", "properties": {"offers": {"type": "array"}}, "required": ["offers"]}
}


def a_card(tools: Sequence[ToolEntry] = (), components: Mapping[str, Any] = COMPONENTS, **changes: Any) -> Card:
    """Return the conformance suite's card with tools and components."""
    definition = replace(CARD.definition, tools=tuple(tool.id for tool in tools), components=components)
    return replace(CARD, definition=definition, tools=tuple(tools), **changes)


def a_local_tool(tool_id: str, **schema: Any) -> ToolEntry:
    """Return a tool that no data service backs."""
    return ToolEntry(id=ToolId(tool_id), description=f"Does {tool_id}.", arguments={"type": "object", **schema})


def a_request(card: Card | None = None, *, user: str = "user-7", child: str = "child-1", **changes: Any) -> RunRequest:
    """Return a request for a user."""
    context = msgspec.structs.replace(CONTEXT, principal=Principal(user), prior_context="", task_prompt="")
    given = {"card": card or CARD, "context": context, "arguments_json": json.dumps({"request": "something"})}
    return request_for(AgentScript.ANSWER, child, **{**given, "prompt_suffix": f"\nuser_id: {user}\n", **changes})


@asynccontextmanager
async def running(runtime: AgentRuntime) -> AsyncIterator[LangChainRunner]:
    """Give a runner in this process."""
    runner = LangChainRunner(runtime.run, NO_GATEWAY)
    try:
        yield runner
    finally:
        await runner.close()


async def events_of(runner: LangChainRunner, request: RunRequest) -> list[RunnerEvent]:
    """Run to the end."""
    return [event async for event in runner.run(request)]


def said(events: Sequence[RunnerEvent]) -> str:
    """Return the whole narration."""
    return "".join(event.text for event in events if isinstance(event, NarrationPart))


def with_digest(card: Card, number: int) -> Card:
    """Return the card under another digest, with nothing else changed."""
    return replace(card, digest=Digest(f"sha256:{number:064x}"))
