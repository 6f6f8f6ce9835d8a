"""What happens inside a graph, told to the sidecar: events of the stream writer, and tokens."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.outputs import ChatGeneration, LLMResult
from typing_extensions import override

from sidecar_runner_langchain.attempt import Attempt
from sidecar_runner_langchain.failures import AgentFailed
from sidecar_runner_langchain.schemas import schema_of
from subagents_client.runner import Run

LOG: Final = logging.getLogger("sidecar_runner_langchain")


async def report(attempt: Attempt, event: Any) -> None:
    """Pass on what a node or tool gave to `get_stream_writer()`. Source: PC1-D-14, PC1-FR-13a.

    Known are `{"status": type, "attributes": {...}}`, `{"component": name, "tool_input": ..., "component_data": ...}`,
    `{"narration": text}` and `{"data_unavailable": True}`; a graph may write others for itself.

    Raises:
        AgentFailed: a component does not fit the card's schema, or there are too many.
    """
    match event:
        case {"status": str() as kind, **more}:
            given = more.get("attributes")
            attributes = given if isinstance(given, Mapping) else {}
            await attempt.run.status(kind, **{str(name): str(value) for name, value in attributes.items()})
        case {"component": str() as name, "component_data": data, **more}:
            _render(attempt.run, name, more.get("tool_input"), data)
        case {"narration": str() as text}:
            attempt.narrated = True
            await attempt.run.narrate(text)
        case {"data_unavailable": bool() as without}:
            attempt.without_data = without
        case _:
            pass


def _render(run: Run, name: str, tool_input: Any, data: Any) -> None:
    if problems := schema_of(run.card.component_schemas_json.get(name, "{}")).problems(data):
        paths = ", ".join(part.partition(":")[0] for part in problems.split("; "))
        raise AgentFailed(f"the graph made a component {name} that does not fit the card's schema: {paths}")
    try:
        run.render(name, tool_input=tool_input, component_data=data)
    except (TypeError, ValueError):
        raise AgentFailed(f"the component {name} is no JSON, or one too many") from None


class UsageReports(AsyncCallbackHandler):
    """Adds up the tokens of every model call of a run, whichever graph or tool makes it, and reports the totals."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._input = 0
        self._output = 0
        self._cached: int | None = None

    @override
    async def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        """Add one call."""
        for generation in (each for some in response.generations for each in some):
            usage = (
                getattr(generation.message, "usage_metadata", None) if isinstance(generation, ChatGeneration) else None
            )
            if usage is not None:
                self._input += usage["input_tokens"]
                self._output += usage["output_tokens"]
                cached = usage.get("input_token_details", {}).get("cache_read")
                self._cached = self._cached if cached is None else (self._cached or 0) + cached
        if self._input or self._output:
            self._run.usage(input_tokens=self._input, output_tokens=self._output, cached_input_tokens=self._cached)

    def log(self) -> None:
        """Write what the attempt's models used to the host's log; nothing if no provider reported any."""
        if self._input or self._output:
            cached = "unknown" if self._cached is None else self._cached
            LOG.info(
                "attempt %s of %s used %d input tokens, %s of them from the provider's cache, and %d output tokens",
                self._run.attempt_id, self._run.sub_agent_id, self._input, cached, self._output,
            )  # fmt: skip
