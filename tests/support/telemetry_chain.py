"""A sidecar process with everything around it, for what it tells a collector and a Prometheus server."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents_client.runner import Answer, DataUnavailable, Run, RunnerHost
from tests.support.reference_ccs import RunningCcs, running_reference_ccs
from tests.support.requests import a_bind, some_calls
from tests.support.sidecar_process import SidecarProcess, place, serving

CONFIGURED: Final = "http://127.0.0.1:8480"
USER: Final = "user-canary-7351"
SECRET_WORDS: Final = "canary-of-a-sub-agent"


@dataclass(slots=True)
class TelemetryChain:
    """The running processes; `turn` holds one whole turn over the real sockets."""

    sidecar: SidecarProcess
    ccs: RunningCcs
    channel: grpc.aio.Channel

    async def turn(self, number: int, *calls: str, traceparent: str = "", user: str = USER) -> pb.EndTurnResponse:
        """Bind, dispatch if there are calls, end."""
        stub = dispatch_pb2_grpc.DispatchServiceStub(self.channel)
        metadata: tuple[tuple[str, str], ...] = ((BOOT_SECRET_KEY, self.sidecar.boot_secret),)
        metadata = (*metadata, ("traceparent", traceparent)) if traceparent else metadata
        bind = a_bind(turn_id=f"turn-{number}", episode_id="episode-1", principal=user)
        bound = await stub.BindTurn(bind, metadata=metadata, timeout=10)
        request = pb.DispatchRequest(
            surface_token=bound.surface_token,
            binding_digest=bound.surface.binding_digest,
            dispatch_id=f"dispatch-{number}",
            calls=some_calls(*calls),
            prior_context="So far nothing.",
        )
        if calls:
            await stub.DispatchUnary(pb.DispatchUnaryRequest(dispatch=request), metadata=metadata, timeout=20)
        end = pb.EndTurnRequest(surface_token=bound.surface_token, narration="There.")
        return await stub.EndTurn(end, metadata=metadata, timeout=10)


PATIENT: Final = {"SIDECAR__DISPATCH__EPISODE_LOOKUP_TIMEOUT": "5s"}
"""A bind waits until it knows how long the episode is, however busy the machine."""


@asynccontextmanager
async def telemetry_chain(more: str) -> AsyncIterator[TelemetryChain]:
    """Run data service, two sub-agents (shop asks for offers, rewards fails) and a sidecar with `more` settings."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        ccs = await stack.enter_async_context(running_reference_ccs())
        _configure(folder, ccs.endpoint.removesuffix("/v1/enrich"))
        for slot, host in (("shop", _shop()), ("rewards", _rewards())):
            await stack.enter_async_context(host.serving(f"unix:{folder}/{slot}.sock"))
        sidecar = await stack.enter_async_context(serving(folder, more=more, environment=PATIENT))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(sidecar.dispatch_target))
        yield TelemetryChain(sidecar, ccs, channel)


def _configure(folder: Path, address: str) -> None:
    file = folder / "config" / "agent_config.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(CONFIGURED, address), encoding="utf-8")


def _shop() -> RunnerHost:
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> Any:
        data = await run.call_tool("search_offers", {"query": run.request})
        if isinstance(data, DataUnavailable):
            return Answer("There is nothing.", data_unavailable=True)
        run.usage(input_tokens=900, output_tokens=40, cached_input_tokens=640)
        return f"{SECRET_WORDS}: {data.payload}"

    return host


def _rewards() -> RunnerHost:
    host = RunnerHost()

    @host.sub_agent("rewards")
    async def rewards(run: Run) -> str:
        raise RuntimeError(f"{SECRET_WORDS} for {run.context.principal}")

    return host
