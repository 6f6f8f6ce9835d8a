"""What lanes cost that do nothing, and what one client that stops reading costs the others."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import grpc

from scripts.benchmark.clients import Metadata, SidecarClient
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN
from scripts.benchmark.lane_client import LANE_SECONDS
from scripts.benchmark.load import Sample, sample_of
from scripts.benchmark.processes import Server
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc

KIB: Final = 1024
CONNECTIONS: Final = 4
"""A connection carries 256 streams."""
IDLE_SECONDS: Final = 0.3
SETTLED_SECONDS: Final = 1.0
"""After that, those dispatches have run: what is measured is what their unread answers cost."""
UNREAD: Final = 64
"""Dispatches of eight that a client sends without reading any answer."""


def own_bytes(pid: int) -> int:
    """Return the memory that only this process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    private = [line.split() for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(int(parts[1]) * KIB for parts in private)


def hello(**fields: Any) -> pb.SessionRequest:
    """Return the first message of a lane that is left to itself."""
    return pb.SessionRequest(hello=pb.SessionClientHello(contract_version=1, **fields))


async def idle_lanes(server: Server, socket: Path, secret: str, lanes: int) -> Sample:
    """Open lanes over several connections, one after the other, and leave them alone.

    Returns:
        How long it takes to open one, what CPU time, and how much memory of the sidecar it keeps.
    """
    metadata: Metadata = ((BOOT_SECRET_KEY, secret),)
    async with AsyncExitStack() as stack:
        stubs = []
        for number in range(CONNECTIONS):
            # A channel with the same options as another one shares its connection.
            options = (("bench.connection", number), ("grpc.use_local_subchannel_pool", 1))
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"unix:{socket}", options=options))
            stubs.append(dispatch_pb2_grpc.DispatchServiceStub(channel))
        calls = [await _opened(each, metadata) for each in stubs]  # the connections themselves are there from here on
        before, cpu, began = own_bytes(server.pid), server.cpu_seconds(), time.perf_counter()
        seconds = []
        for number in range(lanes):
            since = time.perf_counter()
            calls.append(await _opened(stubs[number % CONNECTIONS], metadata))
            seconds.append(time.perf_counter() - since)
        rate, cpu = lanes / (time.perf_counter() - began), (server.cpu_seconds() - cpu) / lanes
        await asyncio.sleep(IDLE_SECONDS)
        kept = (own_bytes(server.pid) - before) / lanes
        for call in calls:
            call.cancel()
    return replace(sample_of(seconds, rate, cpu), seen=(), kept_bytes=kept)


async def _opened(stub: Any, metadata: Metadata) -> Any:
    call: Any = stub.Session(timeout=LANE_SECONDS, metadata=metadata)
    await call.write(hello())
    await call.read()
    return call


@asynccontextmanager
async def client_that_stops_reading(socket: Path, secret: str) -> AsyncIterator[None]:
    """Keep a lane on which many answers wait to be read, by a client that reads its hello and nothing else."""
    options = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        client = SidecarClient(channel, secret)
        jobs = await client.prepared(INSTANT, MOST_CHILDREN, UNREAD)
        stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
        call: Any = stub.Session(timeout=LANE_SECONDS, metadata=client.metadata)
        await call.write(hello())
        await call.read()
        for number, job in enumerate(jobs, start=1):
            operation = pb.SessionOperation(correlation_id=number, dispatch=job.request)
            await call.write(pb.SessionRequest(operations=[operation]))
        await asyncio.sleep(SETTLED_SECONDS)
        try:
            yield
        finally:
            call.cancel()
            await client.end_all()
