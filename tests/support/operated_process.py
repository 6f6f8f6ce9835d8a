"""A sidecar with rollouts and an operator listener, as a process of its own or in this one, operated over its sockets.

with place() as folder:
    async with operated_process(folder) as bench:
        await bench.operate("Kill", lifecycle_pb2.KillRequest(header=head("shop", "r-1")))
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.adapters.system import SystemClock
from sidecar.composition.parts import Replaced
from sidecar.composition.running import running_sidecar
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.operators.roles import Role
from sidecar.operations.ports import Clock
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from sidecar.settings import read_settings
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents.lifecycle.v1 import lifecycle_pb2, lifecycle_pb2_grpc, reading_pb2
from tests.support.requests import a_bind
from tests.support.sidecar_process import SidecarProcess, serving, settings_file

DEPLOYMENT: Final = "tests"
FLAGGED: Final = "    enabled_via_flag: ai_assistant_subagent_rewards\n"
SETTINGS: Final = """
[rollout]
kills_file = "{folder}/kills.jsonl"
[operators]
socket = "{folder}/o/s.sock"
deployment = "tests"
keys = ["{folder}/operator.pub"]
"""


@dataclass(slots=True)
class Operated:
    """A sidecar that serves, and short ways to operate it.

    Attributes:
        clock: by which role tokens are minted.
    """

    folder: Path
    signer: Ed25519Signer
    clock: Clock

    async def offers(self, turn_id: str) -> list[str]:
        """Bind a turn; returns the sub-agents that it may call."""
        secret = (self.folder / "dispatch" / "boot-secret").read_text().strip()
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/dispatch/sidecar.sock") as channel:
            stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
            bound = await stub.BindTurn(a_bind(turn_id=turn_id), metadata=((BOOT_SECRET_KEY, secret),), timeout=10)
        return [tool.name for tool in bound.surface.sub_agent_tools]

    async def operate(self, method: str, request: Any) -> Any:
        """Call LifecycleService as an operator."""
        async with self._calling() as (stub, metadata):
            return await getattr(stub, method)(request, timeout=10, metadata=metadata)

    async def audit(self) -> list[reading_pb2.AuditRow]:
        """Return every audit row."""
        async with self._calling() as (stub, metadata):
            stream = stub.WatchAudit(reading_pb2.WatchAuditRequest(no_follow=True), timeout=10, metadata=metadata)
            return [row async for message in stream for row in message.rows]

    async def killed(self, definition_id: str, request_id: str = "r-kill") -> None:
        """Kill a sub-agent."""
        await self.operate("Kill", lifecycle_pb2.KillRequest(header=head(definition_id, request_id)))

    async def tested(self, definition_id: str, request_id: str = "r-test") -> None:
        """Bring a sub-agent from `dev` to `test`, which needs no gate."""
        request = lifecycle_pb2.TransitionRequest(
            header=head(definition_id, request_id, expected_revision=1), target_state=reading_pb2.LIFECYCLE_STATE_TEST
        )
        await self.operate("Transition", request)

    @asynccontextmanager
    async def _calling(self) -> AsyncIterator[tuple[Any, tuple[tuple[str, str], ...]]]:
        now = int(self.clock.now().timestamp())
        claims = RoleClaims(
            aud=DEPLOYMENT,
            sub="ada@example",
            role=Role.OPERATOR,
            nbf=now,
            exp=now + 600,
            jti="t-1",
            kid=self.signer.key_id,
        )
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/o/s.sock") as channel:
            metadata = ((ROLE_TOKEN_KEY, seal(claims, self.signer.sign)),)
            yield lifecycle_pb2_grpc.LifecycleServiceStub(channel), metadata


@dataclass(slots=True)
class OperatedProcess(Operated):
    """One that is a process of its own."""

    sidecar: SidecarProcess


@asynccontextmanager
async def operated_process(
    folder: Path, more: str = "", private: Ed25519PrivateKey | None = None
) -> AsyncIterator[OperatedProcess]:
    """Serve with rollouts, `rewards` behind flags, and `more` settings."""
    signer = _prepared(folder, private)
    async with serving(folder, more=SETTINGS.format(folder=folder) + more) as sidecar:
        yield OperatedProcess(folder, signer, SystemClock(), sidecar)


@asynccontextmanager
async def operated_here(
    folder: Path, more: str = "", private: Ed25519PrivateKey | None = None, replaced: Replaced | None = None
) -> AsyncIterator[Operated]:
    """Serve the same inside this process, with some things replaced."""
    signer, replaced = _prepared(folder, private), replaced or Replaced()
    settings = read_settings(settings_file(folder, SETTINGS.format(folder=folder) + more), {})
    async with running_sidecar(settings, replaced=replaced):
        yield Operated(folder, signer, replaced.clock)


def _prepared(folder: Path, private: Ed25519PrivateKey | None) -> Ed25519Signer:
    """Let the entry `rewards` name its flag, as a new sub-agent does, and the operator's key be accepted."""
    config = folder / "config" / "agent_config.yaml"
    text = config.read_text(encoding="utf-8")
    if FLAGGED not in text:
        config.write_text(text.replace("  - id: rewards\n", f"  - id: rewards\n{FLAGGED}"), encoding="utf-8")
    private = private or Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "operator.pub").write_bytes(public)
    return Ed25519Signer(private)


def head(definition_id: str, request_id: str, **more: Any) -> lifecycle_pb2.StepHeader:
    """Return what a step carries."""
    return lifecycle_pb2.StepHeader(definition_id=definition_id, request_id=request_id, reason="a test says so", **more)


async def free_port() -> int:
    """Return a port of the loopback that nobody holds, for a server that cannot say which one it took."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port
