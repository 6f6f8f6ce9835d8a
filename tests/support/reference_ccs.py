"""The reference data service of `examples/ccs`, for tests: inside the test's event loop, or as a process of its own."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from examples.ccs.faults import Fault, FaultKind
from examples.ccs.server import Call, ReferenceCcs
from examples.http_serving import serving
from tests.support.plain_http import plain_client

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 120
STOP_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class RunningCcs:
    """A service inside this event loop.

    Attributes:
        address: e.g. `http://127.0.0.1:40123`.
    """

    address: str
    service: ReferenceCcs = field(repr=False)

    @property
    def endpoint(self) -> str:
        """What a tool entry names as its `endpoint`."""
        return f"{self.address}/v1/enrich"

    @property
    def calls(self) -> Sequence[Call]:
        """The calls so far, oldest first."""
        return tuple(self.service.calls)

    def fault(self, kind: FaultKind, **details: Any) -> None:
        """Set a switch; `details` are the fields of `Fault`."""
        self.service.faults.set(Fault(kind=kind, **details))

    def clear(self) -> None:
        """Clear all switches."""
        self.service.faults.clear()


@asynccontextmanager
async def running_reference_ccs() -> AsyncIterator[RunningCcs]:
    """Serve over real HTTP on a free port of the loopback."""
    service = ReferenceCcs()
    async with serving(service.app(), service.faults.clear) as address:
        yield RunningCcs(address, service)


@dataclass(frozen=True, slots=True)
class SpawnedCcs:
    """A service in another process, switched over its admin endpoints."""

    address: str
    pid: int

    @property
    def endpoint(self) -> str:
        """What a tool entry names as its `endpoint`."""
        return f"{self.address}/v1/enrich"

    async def fault(self, kind: FaultKind, **details: Any) -> None:
        """Set a switch; `details` are the fields of `Fault`."""
        body = msgspec.json.encode(Fault(kind=kind, **details))
        async with plain_client() as client:
            (await client.post(f"{self.address}/admin/faults", content=body)).raise_for_status()

    async def clear(self) -> None:
        """Clear all switches."""
        async with plain_client() as client:
            (await client.delete(f"{self.address}/admin/faults")).raise_for_status()

    async def calls(self) -> Sequence[Call]:
        """The calls so far, oldest first."""
        async with plain_client() as client:
            reply = await client.get(f"{self.address}/admin/calls")
        return msgspec.json.decode(reply.content, type=list[Call])


@asynccontextmanager
async def spawned_reference_ccs() -> AsyncIterator[SpawnedCcs]:
    """Run `python -m examples.ccs --port 0` and stop it at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "examples.ccs", "--port", "0", stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        yield SpawnedCcs(json.loads(line)["address"], process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            await process.communicate()
