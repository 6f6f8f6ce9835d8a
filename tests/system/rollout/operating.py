"""A sidecar as a process of its own with a gate service beside it, and an operator who takes steps at it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.gates.server import ReferenceGates
from examples.http_serving import serving as http_service
from subagents.lifecycle.v1 import reading_pb2
from tests.support.operating import FLAG, SETTINGS, SUBAGENT, Operator, prepared
from tests.support.sidecar_process import SidecarProcess, started

__all__ = ["FLAG", "SUBAGENT", "GatedOperator", "an_operator"]

GATED: Final = """
[plugins]
enabled = ["sidecar-gates-http"]

[policy.default]
flags = "{flags}"
gates = "http"

[gates.http]
plugin = "http"
url = "{gates}"
timeout_seconds = 1
attempts = 1
"""
POSTGRESQL: Final = """
[record]
database = "postgresql"

[record.postgresql]
dsn_file = "{folder}/dsn"
lease = "1s"
"""


@dataclass(slots=True, kw_only=True)
class GatedOperator(Operator):
    """An operator whose sidecars, one after the other, ask a gate service that runs in this loop."""

    gates: ReferenceGates
    settings: str

    async def promoted(self, ramp: int = 0) -> None:
        """Bring the sub-agent into `promote`, and to a ramp."""
        await self.tested()
        await self.step("Transition", target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE)
        if ramp:
            await self.step("SetRamp", ramp_basis_points=ramp)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[SidecarProcess]:
        """Start a sidecar, and wait until it takes turns."""
        async with started(self.folder, more=self.settings) as sidecar:
            await sidecar.event("sidecar.readiness")
            yield sidecar


@asynccontextmanager
async def an_operator(
    folder: Path, more: str = "", dsn: str = "", flags: str = "embedded"
) -> AsyncIterator[GatedOperator]:
    """Set a folder up for sidecars, one after the other."""
    signer = prepared(folder)
    if dsn:
        (folder / "dsn").write_text(dsn)
        (folder / "dsn").chmod(0o600)
        more += POSTGRESQL.format(folder=folder)
    gates = ReferenceGates()
    async with http_service(gates.app(), gates.switches.clear, log_level="critical") as address:
        settings = (SETTINGS + GATED).format(folder=folder, gates=address, flags=flags) + more
        yield GatedOperator(folder=folder, signer=signer, gates=gates, settings=settings)
