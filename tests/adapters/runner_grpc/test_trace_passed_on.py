"""A host learns which trace an attempt belongs to, by the metadata that every gRPC instrumentation reads."""

from pathlib import Path
from typing import Any

import pytest

from subagents.runner.v1 import runner_pb2
from tests.adapters.runner_grpc.wild_host import a_run, events_and_error, hosting, saying

TRACED = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=1"}


@pytest.mark.parametrize("headers", [TRACED, {}])
async def test_the_host_gets_the_context_of_the_attempt(headers: dict[str, str], tmp_path: Path) -> None:
    """As it is, and nothing where there is none."""
    got: list[dict[str, Any]] = []
    answer = saying("Hello.")

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        got.append({name: value for name, value in context.invocation_metadata() if name.startswith("trace")})
        await answer(request, context)

    async with hosting(serve, tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run(trace_headers=headers))
    assert (error, got) == (None, [headers])
