"""A runner host that does what a test says, past everything that the SDK's host would put right."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as PackedAny
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from msgspec.structs import replace

from sidecar.adapters.runner_grpc.runner import GrpcRunner
from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings
from sidecar.policy.protocols import RunnerError, RunnerEvent, RunRequest
from sidecar_conformance.run_requests import request_for
from sidecar_conformance.runner_bench import AgentScript
from subagents.runner.v1 import runner_pb2

SERVICE = "subagents.runner.v1.SubAgentRunnerService"
Serve = Callable[[runner_pb2.RunRequest, Any], Awaitable[None]]


class WildHost:
    """The host.

    Attributes:
        seen: every request, in order.
    """

    def __init__(self, serve: Serve, target: str) -> None:
        """Serve each request so."""
        self._serve = serve
        self.target = target
        self.seen: list[runner_pb2.RunRequest] = []

    async def handle(self, raw: bytes, context: Any) -> None:
        """Serve one."""
        self.seen.append(runner_pb2.RunRequest.FromString(raw))
        await self._serve(self.seen[-1], context)


@asynccontextmanager
async def hosting(serve: Serve, folder: Path) -> AsyncIterator[tuple[WildHost, GrpcRunner]]:
    """Serve, and have a runner for it."""
    target = f"unix:{folder / 'wild.sock'}"
    host = WildHost(serve, target)
    server = grpc.aio.server()
    handlers: dict[str, Any] = {"Run": grpc.unary_stream_rpc_method_handler(host.handle)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(target)
    await server.start()
    runner = GrpcRunner(target, "unix:/gateway.sock", GrpcRunnerSettings())
    try:
        yield host, runner
    finally:
        await runner.close()
        await server.stop(0)


def a_run(seconds: float = 10.0, **changes: Any) -> RunRequest:
    """Return a request."""
    return replace(request_for(AgentScript.ANSWER), timeout=timedelta(seconds=seconds), **changes)


async def events_and_error(runner: GrpcRunner, request: RunRequest) -> tuple[Sequence[RunnerEvent], RunnerError | None]:
    """Run to the end; return what was reported and what was raised."""
    events: list[RunnerEvent] = []
    try:
        async for event in runner.run(request):
            events.append(event)  # noqa: PERF401  what came before the error is wanted too
    except RunnerError as error:
        return events, error
    return events, None


def saying(*texts: str, finish: bool = True) -> Serve:
    """Narrate, and finish."""

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        for text in texts:
            await context.write(runner_pb2.RunResponse(narration=text).SerializeToString())
        if finish:
            await context.write(runner_pb2.RunResponse(finished=runner_pb2.RunFinished()).SerializeToString())

    return serve


def sending(*raws: bytes) -> Serve:
    """Send bytes."""

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        for raw in raws:
            await context.write(raw)

    return serve


def refusing(code: grpc.StatusCode, text: str = "", reason: str = "", first: str = "") -> Serve:
    """End with a status, with our `ErrorInfo` if a reason is given, perhaps after some narration."""

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        if first:
            await context.write(runner_pb2.RunResponse(narration=first).SerializeToString())
        await context.abort(code, text, trailing_metadata=trailer(reason) if reason else ())

    return serve


def trailer(reason: str, domain: str = "sidecar.subagents") -> tuple[tuple[str, bytes], ...]:
    """Return the metadata that carries a reason."""
    packed = PackedAny()
    packed.Pack(ErrorInfo(reason=reason, domain=domain))
    return (("grpc-status-details-bin", Status(details=[packed]).SerializeToString()),)
