"""An operator at the socket of a sidecar that serves a folder, and the folder's settings for that."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.adapters.system import SystemClock
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.roles import Role
from sidecar.operations.ports import Clock
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from subagents.dispatch.v1 import dispatch_pb2_grpc, surface_pb2
from subagents.lifecycle.v1 import lifecycle_pb2, lifecycle_pb2_grpc, reading_pb2
from tests.support.requests import a_bind

DEPLOYMENT: Final = "tests"
SUBAGENT: Final = "rewards"
"""The entry that names its flag, as a new sub-agent does."""
FLAG: Final = "ai_assistant_subagent_rewards"
INSIDE: Final = "user-14"
"""In bucket 48 of the salt `rewards`."""
ALONE: Final = (("grpc.use_local_subchannel_pool", 1),)
"""A new channel must not wait out what another one met at the socket of a process that was killed."""
SETTINGS: Final = """
[rollout]
tombstone_file = "{folder}/kills.jsonl"
[operators]
socket = "{folder}/o/s.sock"
deployment = "tests"
keys = ["{folder}/operator.pub"]
"""


@dataclass(slots=True, kw_only=True)
class Operator:
    """Whoever operates the sidecar of a folder, whichever process that is at the moment.

    Attributes:
        clock: by which role tokens are minted.
    """

    folder: Path
    signer: Ed25519Signer
    clock: Clock = field(default_factory=SystemClock)

    async def ask(self, method: str, request: Any) -> Any:
        """Call LifecycleService."""
        async with self._lifecycle() as (stub, metadata):
            return await getattr(stub, method)(request, timeout=20, metadata=metadata)

    async def take(self, method: str, header: lifecycle_pb2.StepHeader, **fields: Any) -> lifecycle_pb2.StepResult:
        """Take a step with a header that was made before, so that it can be repeated."""
        request = getattr(lifecycle_pb2, f"{method}Request")(header=header, **fields)
        result: lifecycle_pb2.StepResult = (await self.ask(method, request)).result
        return result

    async def step(self, method: str, definition_id: str = SUBAGENT, **fields: Any) -> lifecycle_pb2.StepResult:
        """Take a step on what was read just before."""
        return await self.take(method, await self.header(definition_id), **fields)

    async def killed(self, definition_id: str, **header: Any) -> lifecycle_pb2.StepResult:
        """Kill a sub-agent, without reading anything."""
        return await self.take("Kill", self.unread(definition_id, **header))

    async def tested(self, definition_id: str = SUBAGENT) -> lifecycle_pb2.StepResult:
        """Bring a sub-agent from `dev` to `test`, which needs no gate."""
        return await self.step("Transition", definition_id, target_state=reading_pb2.LIFECYCLE_STATE_TEST)

    async def header(self, definition_id: str = SUBAGENT) -> lifecycle_pb2.StepHeader:
        """Return what a step carries, with the present revision."""
        revision = (await self.status(definition_id)).revision
        return self.unread(definition_id, expected_revision=revision)

    def unread(self, definition_id: str = SUBAGENT, **fields: Any) -> lifecycle_pb2.StepHeader:
        """Return what a step carries, without reading anything."""
        given = {"definition_id": definition_id, "request_id": f"r-{uuid4()}", "reason": "a test says so"}
        return lifecycle_pb2.StepHeader(**(given | fields))

    async def status(self, name: str = SUBAGENT) -> reading_pb2.SlotStatus:
        """Return a slot."""
        status: reading_pb2.SlotStatus = (await self.ask("GetRollout", reading_pb2.GetRolloutRequest(slot=name))).status
        return status

    async def definition(self, name: str = SUBAGENT) -> reading_pb2.DefinitionStatus:
        """Return the one definition of a slot."""
        (one,) = (await self.status(name)).definitions
        return one

    async def audit(self) -> list[reading_pb2.AuditRow]:
        """Return every audit row."""
        async with self._lifecycle() as (stub, metadata):
            stream = stub.WatchAudit(reading_pb2.WatchAuditRequest(no_follow=True), timeout=10, metadata=metadata)
            return [row async for message in stream for row in message.rows]

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Any]:
        """Follow the audit from its first row."""
        async with self._lifecycle() as (stub, metadata):
            yield stub.WatchAudit(reading_pb2.WatchAuditRequest(), metadata=metadata)

    async def offers(self, turn_id: str, principal: str = INSIDE) -> list[str]:
        """Bind a turn; returns the sub-agents that it may call."""
        return [tool.name for tool in await self._tools(turn_id, principal)]

    async def digest_served(self, turn_id: str) -> str:
        """Bind a turn; returns which definition serves the sub-agent, empty if none does."""
        tools = await self._tools(turn_id, INSIDE)
        return next((tool.digest for tool in tools if tool.name == f"ask_{SUBAGENT}"), "")

    async def _tools(self, turn_id: str, principal: str) -> Sequence[surface_pb2.SubAgentTool]:
        secret = (self.folder / "dispatch" / "boot-secret").read_text().strip()
        target = f"unix:{self.folder}/dispatch/sidecar.sock"
        async with grpc.aio.insecure_channel(target, options=ALONE) as channel:
            stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
            request = a_bind(turn_id=turn_id, principal=principal)
            bound = await stub.BindTurn(request, timeout=10, metadata=((BOOT_SECRET_KEY, secret),))
        return bound.surface.sub_agent_tools

    def role_token(self) -> str:
        """Return a token of the operator."""
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
        return seal(claims, self.signer.sign)

    @asynccontextmanager
    async def _lifecycle(self) -> AsyncIterator[tuple[Any, tuple[tuple[str, str], ...]]]:
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/o/s.sock", options=ALONE) as channel:
            metadata = ((ROLE_TOKEN_KEY, self.role_token()),)
            yield lifecycle_pb2_grpc.LifecycleServiceStub(channel), metadata


def prepared(folder: Path, private: Ed25519PrivateKey | None = None) -> Ed25519Signer:
    """Let the entry SUBAGENT name its flag, and an operator's key be accepted; returns what signs with that key."""
    config = folder / "config" / "agent_config.yaml"
    text = config.read_text(encoding="utf-8")
    named = text.replace(f"  - id: {SUBAGENT}\n", f"  - id: {SUBAGENT}\n    enabled_via_flag: {FLAG}\n")
    assert named != text
    if FLAG not in text:
        config.write_text(named, encoding="utf-8")
    private = private or Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "operator.pub").write_bytes(public)
    return Ed25519Signer(private)
