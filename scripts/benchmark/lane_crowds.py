"""What lanes cost that do nothing, and what one client that stops reading costs the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc

from scripts.benchmark.clients import Metadata, SidecarClient
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN
from scripts.benchmark.lane_client import LANE_SECONDS
from scripts.benchmark.processes import Server
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc

KIB: Final = 1024
OPENED_AT_ONCE: Final = 50
SETTLED_SECONDS: Final = 1.5
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


async def bytes_of_a_lane(server: Server, socket: Path, metadata: Metadata, lanes: int, connections: int) -> float:
    """Open idle lanes over several connections and return how many bytes each takes in the sidecar."""
    async with AsyncExitStack() as stack:
        stubs = []
        for number in range(connections):
            # A channel with the same options as another one shares its connection.
            options = (("bench.connection", number), ("grpc.use_local_subchannel_pool", 1))
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"unix:{socket}", options=options))
            stubs.append(dispatch_pb2_grpc.DispatchServiceStub(channel))
        calls: list[Any] = []
        before = 0
        for number in range(connections + lanes):
            call: Any = stubs[number % connections].Session(timeout=LANE_SECONDS, metadata=metadata)
            await call.write(hello())
            calls.append(call)
            if number + 1 == connections:  # the connections themselves are there from here on
                await asyncio.gather(*(each.read() for each in calls))
                before, calls_before = own_bytes(server.pid), len(calls)
            elif len(calls) % OPENED_AT_ONCE == 0:
                await asyncio.gather(*(each.read() for each in calls[-OPENED_AT_ONCE // 2 :]))
        await asyncio.sleep(1.0)
        taken = own_bytes(server.pid) - before
        for call in calls:
            call.cancel()
        return taken / (len(calls) - calls_before)


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
